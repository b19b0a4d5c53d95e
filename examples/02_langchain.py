"""The encoder as a LangChain Embeddings object: whole documents, no splitter needed."""

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from lmk_integrations.langchain import LMKEmbeddings

corpus = Path(__file__).parent / "corpus"
documents = [
    Document(path.read_text(encoding="utf-8"), metadata={"source": path.name})
    for path in sorted(corpus.glob("*.txt")) + sorted(corpus.glob("*.rst"))
]

embeddings = LMKEmbeddings()  # the shipped model; model="path/or/hub-id" for another
store = InMemoryVectorStore(embeddings)
store.add_documents(documents)

for question in ("saving log messages to a file", "invaders from another planet"):
    [(found, score)] = store.similarity_search_with_score(question, k=1)
    print(f"{question!r}: {found.metadata['source']} ({score:.3f})")

# Landmarks and their character offsets are at hand through .encoder.
[encoding] = embeddings.encoder.encode_landmarks([documents[0].page_content])
print(f"{documents[0].metadata['source']}: {len(encoding.spans)} landmarks")
