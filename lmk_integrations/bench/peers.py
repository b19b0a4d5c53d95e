"""Who is measured beside this package, and the environment that each runs in."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lmk_integrations.bench.workers import Worker, WorkerError
from lmk_integrations.encoder.backends.cache_folder import cache_folder

logger = logging.getLogger(__name__)

INSTALL_TIMEOUT_S = 1800.0

_HERE = Path(__file__).parent
_READY = "installed.txt"
_LINES_OF_PIP = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """A contender from elsewhere.

    name: in tables; file, key: its worker. modules: what must be importable for it to run where
    this package runs; requirements: what pip installs otherwise, in an environment named `home`
    that peers of the same requirements share.
    """

    name: str
    file: str
    key: str
    home: str
    modules: tuple[str, ...]
    requirements: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file that its worker serves."""
        return _HERE / self.file


LANGCHAIN_STORE = Peer(
    name="langchain_qdrant, QdrantClient(path=...)",
    file="peer_stores.py",
    key="langchain",
    home="langchain-qdrant",
    modules=("langchain_qdrant", "qdrant_client"),
    requirements=("langchain-qdrant>=1.1", "numpy>=1.26"),
)

# One environment for both frameworks, with all that their encoders and pipelines need.
_FRAMEWORKS = (
    *("langchain-huggingface>=1.0", "langchain-text-splitters>=1.0", "langchain-community>=0.4"),
    *("langchain-qdrant>=1.1", "llama-index-core>=0.14", "llama-index-readers-file>=0.5"),
    *("llama-index-embeddings-huggingface>=0.6", "llama-index-vector-stores-qdrant>=0.8"),
    "sentence-transformers>=5",
)


def _encoder(name: str, key: str, home: str, module: str, requirements: tuple[str, ...]) -> Peer:
    return Peer(name, "peer_encoders.py", key, home, (module,), requirements)


def _sentence_transformers(variant: str) -> Peer:
    name, key = f"sentence-transformers {variant}", f"sentence-transformers:{variant}"
    if variant in ("onnx", "openvino"):
        module = "optimum.onnxruntime" if variant == "onnx" else "optimum.intel.openvino"
        home, requirement = (
            f"sentence-transformers-{variant}",
            f"sentence-transformers[{variant}]>=5",
        )
    else:
        module = home = "sentence_transformers"
        requirement = "sentence-transformers>=5"
    return _encoder(name, key, home, module, (requirement,))


ONNX = _sentence_transformers("onnx")
FASTEMBED = _encoder("FastEmbed", "fastembed", "fastembed", "fastembed", ("fastembed>=0.7",))
ENCODERS: dict[str, Peer] = {
    "langchain": _encoder(
        "LangChain HuggingFaceEmbeddings",
        "langchain",
        "frameworks",
        "langchain_huggingface",
        _FRAMEWORKS,
    ),
    "llama-index": _encoder(
        "LlamaIndex HuggingFaceEmbedding",
        "llama-index",
        "frameworks",
        "llama_index.embeddings.huggingface",
        _FRAMEWORKS,
    ),
    "st-float32": _sentence_transformers("float32"),
    "st-bfloat16": _sentence_transformers("bfloat16"),
    "st-onnx": ONNX,
    "st-openvino": _sentence_transformers("openvino"),
    "fastembed": FASTEMBED,
}
"""Encoders by the names that `lmk bench encode --peers` takes."""

_LANGCHAIN_MODULES = (
    *("langchain_community", "langchain_huggingface", "langchain_qdrant"),
    "langchain_text_splitters",
)
_LLAMA_INDEX_MODULES = (
    *("llama_index.embeddings.huggingface", "llama_index.vector_stores.qdrant"),
    "llama_index.readers.file",
)


def _pipeline(name: str, key: str, modules: tuple[str, ...]) -> Peer:
    return Peer(name, "peer_pipelines.py", key, "frameworks", modules, _FRAMEWORKS)


PIPELINES: dict[str, Peer] = {
    "langchain": _pipeline(
        "LangChain TextLoader, splitter 1000/200, QdrantVectorStore",
        "langchain",
        _LANGCHAIN_MODULES,
    ),
    "llama-index": _pipeline("LlamaIndex IngestionPipeline", "llama-index", _LLAMA_INDEX_MODULES),
    "llama-index-whole": _pipeline(
        "LlamaIndex, chunks that are read whole", "llama-index:whole", _LLAMA_INDEX_MODULES
    ),
}
"""Pipelines by the names that `lmk bench ingest --peers` takes."""


def default_homes() -> Path:
    """The folder of environments, where none is named."""
    return cache_folder() / "peers"


def own_worker(name: str, file: str, key: str) -> Worker:
    """A worker of this package's own."""
    return Worker(name, _HERE / file, key)


def start(peer: Peer, homes: Path) -> Worker:
    """A peer's worker: here if all it needs is here, else in its own environment, made if need be.

    homes: the folder of environments. Raises WorkerError where the peer cannot be installed.
    """
    if all(map(_is_here, peer.modules)):
        return Worker(peer.name, peer.path, peer.key)
    return Worker(peer.name, peer.path, peer.key, environment(peer, homes))


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that it is inside of
        return False


def environment(peer: Peer, homes: Path) -> Path:
    """The Python of a peer's environment. Raises WorkerError with pip's reason."""
    home = homes.expanduser() / peer.home
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = home / _READY
    wanted = "\n".join(peer.requirements)
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    if home.exists() and any(home.iterdir()) and not (home / "pyvenv.cfg").is_file():
        raise WorkerError(
            f"{peer.name} cannot be installed: {home} is no environment, and is left as it is; "
            "name another folder for environments of peers"
        )
    logger.info("installing %s into %s", ", ".join(peer.requirements), home)
    try:
        venv.create(home, with_pip=True, clear=True)
        _install(python, peer.requirements)
    except (OSError, subprocess.SubprocessError) as error:
        raise WorkerError(f"{peer.name} cannot be installed: {_reason(error)}") from error
    ready.write_text(wanted, encoding="utf-8")
    return python


def _install(python: Path, requirements: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        same = Path(folder) / "constraints.txt"
        same.write_text("".join(f"{line}\n" for line in shared_versions()), encoding="utf-8")
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "-c", str(same), *requirements],
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )


def shared_versions() -> list[str]:
    """What peers shall have in the version that is here, as pip's constraints: whoever multiplies
    matrices with PyTorch shall do it with the same one."""
    try:
        return [f"torch=={metadata.version('torch').partition('+')[0]}"]
    except metadata.PackageNotFoundError:
        return []


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return " / ".join(line.strip() for line in text.strip().split("\n")[-_LINES_OF_PIP:])
