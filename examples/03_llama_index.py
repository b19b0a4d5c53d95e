"""The encoder as a LlamaIndex embed_model."""

from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter

from lmk_integrations.llama_index import LMKEmbedding

corpus = Path(__file__).parent / "corpus"
documents = [
    Document(text=path.read_text(encoding="utf-8"), metadata={"source": path.name})
    for path in sorted(corpus.glob("*.rst"))
]

index = VectorStoreIndex.from_documents(
    documents,
    embed_model=LMKEmbedding(),
    # Nodes may be long: the encoder reads all of them, however many windows it takes.
    transformations=[SentenceSplitter(chunk_size=1024, chunk_overlap=0)],
)
for found in index.as_retriever(similarity_top_k=3).retrieve("How are log messages formatted?"):
    text = " ".join(found.node.get_content().split())
    print(f"{found.score:.3f} {found.node.metadata['source']}: {text[:80]}...")
