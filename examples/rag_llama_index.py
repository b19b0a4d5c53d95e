"""Questions answered from the quickstart's corpus, with citations: LlamaIndex.

python examples/rag_llama_index.py "Who did the governess see on top of the tower?"

With OPENAI_BASE_URL (and OPENAI_MODEL, OPENAI_API_KEY) a chat model writes the answers; without,
they are the best sentences found. `CitingEngine` takes any LLM of LlamaIndex.
"""

from __future__ import annotations

from typing import Any

from llama_index.core import PromptTemplate
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response, StreamingResponse
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle
from rag_shared import (
    CONDENSE,
    SYSTEM,
    Passage,
    arguments,
    as_filter,
    chat_server,
    converse,
    extract,
    fenced,
    open_index,
    sources,
)

from lmk_integrations import LandmarkIndex, LMKEncoder
from lmk_integrations.llama_index import LMKRetriever

CONDENSED = PromptTemplate(CONDENSE + "\n\n{chat_history}\n\nLast question: {question}")


class DocumentsFirst(BaseRetriever):
    """Chooses documents by the vectors of whole documents, then passages of those."""

    def __init__(self, index: LandmarkIndex, documents: int, k: int, filters: dict[str, Any]):
        super().__init__()
        self._index, self._k, self._filters = index, k, filters
        self._documents = LMKRetriever(
            index, mode="document", similarity_top_k=documents, filters=filters
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        chosen = [found.node.ref_doc_id for found in self._documents.retrieve(query_bundle)]
        filters = {**self._filters, "doc_id": chosen}
        passages = LMKRetriever(self._index, similarity_top_k=self._k, filters=filters)
        return passages.retrieve(query_bundle)


class CitingEngine(CustomQueryEngine):
    """A query engine whose answers cite its source nodes by number."""

    retriever: BaseRetriever
    encoder: Any  # an LMKEncoder, for answers without a model
    llm: LLM | None = None
    streaming: bool = True

    def custom_query(self, query_str: str) -> Response | StreamingResponse:
        """Retrieve, then answer from what was found."""
        nodes = self.retriever.retrieve(query_str)
        found = passages(nodes)
        if self.llm is None:
            return Response(extract(query_str, found, self.encoder), source_nodes=nodes)
        asked = [
            ChatMessage(role="system", content=SYSTEM),
            ChatMessage(role="user", content=f"{fenced(found)}\n\nQuestion: {query_str}"),
        ]
        if not self.streaming:
            return Response(self.llm.chat(asked).message.content, source_nodes=nodes)
        parts = (part.delta or "" for part in self.llm.stream_chat(asked))
        return StreamingResponse(parts, source_nodes=nodes)


def passages(nodes: list[NodeWithScore]) -> list[Passage]:
    """What the retriever found, as shown and as put into prompts."""
    return [
        Passage(
            one.node.get_content(),
            one.node.metadata.get("title"),
            one.node.metadata.get("source", "?"),
            one.node.metadata.get("page"),
            one.node.start_char_idx,
            one.node.end_char_idx,
        )
        for one in nodes
    ]


def build(
    index: LandmarkIndex,
    llm: LLM | None,
    *,
    k: int = 4,
    filters: dict[str, Any] | None = None,
    documents: int | None = None,
) -> CitingEngine:
    """The application over an index."""
    assert isinstance(index.encoder, LMKEncoder)
    retriever: BaseRetriever
    if documents is None:
        retriever = LMKRetriever(index, similarity_top_k=k, filters=filters or {})
    else:
        retriever = DocumentsFirst(index, documents, k, filters or {})
    return CitingEngine(retriever=retriever, encoder=index.encoder, llm=llm)


def main() -> None:
    """Answer the questions of the command line."""
    options = arguments(__doc__.splitlines()[0])
    server = chat_server()
    llm: LLM | None = None
    if server is not None:
        from llama_index.llms.openai_like import OpenAILike

        llm = OpenAILike(
            api_base=server["base_url"],
            api_key=server["api_key"],
            model=server["model"],
            is_chat_model=True,
            temperature=0,
        )
    before = ""
    with open_index(options.store, options.collection) as index:
        engine = build(
            index,
            llm,
            k=options.k,
            filters=as_filter(options.filter),
            documents=options.documents,
        )
        chat = None
        if options.chat and llm is not None:
            chat = CondenseQuestionChatEngine.from_defaults(
                query_engine=engine, llm=llm, condense_question_prompt=CONDENSED
            )

        def ask(question: str) -> None:
            nonlocal before
            if chat is not None:
                answer: Any = chat.stream_chat(question)
            else:  # without a model a follow-up is understood by the question before it
                answer = engine.query(f"{before} {question}".strip() if options.chat else question)
                before = question
            if hasattr(answer, "response_gen") and answer.response_gen is not None:
                for part in answer.response_gen:
                    print(part, end="", flush=True)
                print()
            else:
                print(answer)
            print(f"\n{sources(passages(answer.source_nodes))}")

        converse(options.questions, ask)


if __name__ == "__main__":
    main()
