"""LMKEmbeddings: LMKEncoder as LangChain Embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import ConfigDict, Field
from typing_extensions import Unpack

from lmk_integrations._adapters import Cancelled, EncoderFields, EncoderOptions
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.locate import DEFAULT_MODEL


class LMKEmbeddings(EncoderFields, Embeddings):
    """Embeddings of texts of any length by a landmark encoder. Nothing is truncated.

    Setup:
        .. code-block:: bash

            pip install 'lmk-integrations[langchain]'

    Key init args:
        model: None for the shipped default, a local directory, or a hub id (also ``model_name``).
        encoder: a ready `LMKEncoder` in place of ``model`` and the options.
        show_progress: a progress bar while documents are embedded.
        pooling, granularity, max_tokens, overlap_tokens, device, dtype, backend, compile,
        query_prompt, document_prompt, normalize, truncate_dim, token_budget, local_files_only: as
        in `LMKEncoder`.

    Instantiate:
        .. code-block:: python

            from lmk_integrations.langchain import LMKEmbeddings

            embeddings = LMKEmbeddings()

    Embed single text:
        .. code-block:: python

            vector = embeddings.embed_query("Who built the bridge?")  # list of floats

    Embed multiple texts:
        .. code-block:: python

            vectors = embeddings.embed_documents(["a short text", "a whole book"])
            landmarks = embeddings.encoder.encode_landmarks(["a whole book"])[0]
            landmarks.spans  # which characters each of landmarks.landmarks stands for

    Async:
        .. code-block:: python

            vectors = await embeddings.aembed_documents(["a", "b"])
            vector = await embeddings.aembed_query("a question")

        Async calls run on one thread of the object's own and leave the event loop free;
        cancelling the task stops the work before its next batch.

    The model is opened when the object is made. Raises ConfigError for options that cannot work,
    ModelError for a model that cannot be opened, pydantic's ValidationError for unknown options.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), populate_by_name=True)

    model_name: str = Field(
        default=DEFAULT_MODEL, alias="model", frozen=True, description="Name, directory or hub id."
    )
    show_progress: bool = Field(default=False, description="Show a progress bar for documents.")

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        model_name: str | Path | None = None,
        encoder: LMKEncoder | None = None,
        show_progress: bool = False,
        **options: Unpack[EncoderOptions],
    ) -> None:
        super().__init__(
            model=model,
            model_name=model_name,
            encoder=encoder,
            options=options,
            show_progress=show_progress,
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per document, in order; long ones are read whole. [] gives []."""
        return self._documents(texts, None)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query, which gets the query prompt and not the documents'."""
        return self._query(text, None)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As `embed_documents`, on the object's worker thread."""
        return await self._worker.run(lambda cancelled: self._documents(texts, cancelled))

    async def aembed_query(self, text: str) -> list[float]:
        """As `embed_query`, on the object's worker thread."""
        return await self._worker.run(lambda cancelled: self._query(text, cancelled))

    def _documents(self, texts: list[str], cancelled: Cancelled | None) -> list[list[float]]:
        with _progress_bar(len(texts), shown=self.show_progress) as progress:
            vectors = self.encoder.encode_documents(texts, progress=progress, cancelled=cancelled)
        found: list[list[float]] = vectors.tolist()
        return found

    def _query(self, text: str, cancelled: Cancelled | None) -> list[float]:
        found: list[float] = self.encoder.encode_queries([text], cancelled=cancelled)[0].tolist()
        return found


@contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[int, int], Any] | None]:
    """A callback that moves a progress bar, or None when none is to be shown."""
    if not shown:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc="Embedding", unit="text") as bar:
        yield lambda done, _total: bar.update(done - bar.n)
