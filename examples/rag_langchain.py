"""Questions answered from the quickstart's corpus, with citations: LangChain.

python examples/rag_langchain.py "Who did the governess see on top of the tower?"

With OPENAI_BASE_URL (and OPENAI_MODEL, OPENAI_API_KEY) a chat model writes the answers; without,
they are the best sentences found. `build` takes any chat model of LangChain.
"""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
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

from lmk_integrations import LandmarkIndex
from lmk_integrations.langchain import LMKRetriever

HISTORY = MessagesPlaceholder("history")


def build(
    index: LandmarkIndex,
    model: BaseChatModel | None,
    *,
    k: int = 4,
    filter: dict[str, Any] | None = None,  # noqa: A002 - Qdrant's word
    documents: int | None = None,
) -> Runnable[dict[str, Any], dict[str, Any]]:
    """{"question", "history"} -> the same with "found" (documents) and "answer" (text)."""

    def retrieve(query: str) -> list[Document]:
        wanted = dict(filter or {})
        if documents is not None:  # by the vectors of whole documents
            first = LMKRetriever(index=index, search_type="document", k=documents, filter=filter)
            wanted["doc_id"] = [found.metadata["document_id"] for found in first.invoke(query)]
        return LMKRetriever(index=index, k=k, filter=wanted).invoke(query)

    if model is None:
        query: Any = RunnableLambda(_last_two)
        answer: Any = RunnableLambda(
            lambda state: extract(state["question"], passages(state["found"]), index.encoder)
        )
    else:
        condense = ChatPromptTemplate.from_messages(
            [("system", CONDENSE), HISTORY, ("human", "{question}")]
        )
        alone = condense | model | StrOutputParser()
        query = RunnableLambda(lambda state: alone if state["history"] else state["question"])
        prompt = ChatPromptTemplate.from_messages(
            [("system", SYSTEM), HISTORY, ("human", "{passages}\n\nQuestion: {question}")]
        )
        answer = prompt | model | StrOutputParser()
    return (
        RunnablePassthrough.assign(found=query | RunnableLambda(retrieve))
        .assign(passages=lambda state: fenced(passages(state["found"])))
        .assign(answer=answer)
    )


def passages(found: list[Document]) -> list[Passage]:
    """What the retriever found, as shown and as put into prompts."""
    return [
        Passage(
            one.page_content,
            one.metadata.get("title"),
            one.metadata.get("source", "?"),
            one.metadata.get("page"),
            one.metadata["start"],
            one.metadata["end"],
        )
        for one in found
    ]


def _last_two(state: dict[str, Any]) -> str:
    """Without a model a follow-up is understood by the question before it."""
    before = [message.content for message in state["history"] if message.type == "human"]
    return " ".join([*before[-1:], state["question"]])


def main() -> None:
    """Answer the questions of the command line."""
    options = arguments(__doc__.splitlines()[0])
    server = chat_server()
    model: BaseChatModel | None = None
    if server is not None:
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(temperature=0, **server)
    history: list[BaseMessage] = []
    with open_index(options.store, options.collection) as index:
        chain = build(
            index,
            model,
            k=options.k,
            filter=as_filter(options.filter),
            documents=options.documents,
        )

        def ask(question: str) -> None:
            said, found = "", []
            for part in chain.stream({"question": question, "history": list(history)}):
                found = part.get("found", found)
                print(part.get("answer", ""), end="", flush=True)
                said += part.get("answer", "")
            print(f"\n\n{sources(passages(found))}")
            if options.chat:
                history.extend([HumanMessage(question), AIMessage(said)])

        converse(options.questions, ask)


if __name__ == "__main__":
    main()
