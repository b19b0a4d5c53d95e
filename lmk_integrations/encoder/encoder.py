"""LMKEncoder: tokenise -> plan -> backend -> pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder.identity import Space, digest_of
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.plan import Planner
from lmk_integrations.encoder.records import LandmarkEncoding, SectionEncoding, TextFailed
from lmk_integrations.encoder.settings import DEFAULT_TOKEN_BUDGET, EncoderSettings
from lmk_integrations.encoder.stream import Event, SectionStream, StreamItem
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.records import TextSource

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


class LMKEncoder:
    """Encodes texts of any length into pooled vectors and landmark vectors.

    Source of the method: "LMK > CLS", arXiv 2601.21525. Thread-safe. Nothing is truncated: a text
    longer than the model's window is read in several windows and pooled over all of them.

    model: None for the shipped default, a local directory, or a hub id.
    pooling: "lmk"; "mean", "cls", "last" for encoders not trained for landmarks. None, here and
        below, takes what the model's lmk_config.json says, else its sentence-transformers files,
        else a safe default.
    granularity: tokens per landmark (default 32), or "sentence".
    max_tokens: positions of one window; overlap_tokens: context read again at a window's start.
    device, dtype: "auto" picks the GPU, and bfloat16 where the hardware multiplies it. "int8" is
        for CPUs, needs OpenVINO or ONNX Runtime, and has a fingerprint of its own.
    backend: "torch", "openvino", "onnx"; "auto" takes OpenVINO where it is installed and faster.
    compile: run PyTorch's model through torch.compile: slow to start, worth it for long runs on a
        GPU. The vectors are the same.
    query_prompt, document_prompt: put before every query, and at the start of every window of a
        document; "" switches a saved prompt off.
    normalize: L2-normalise vectors. truncate_dim: keep the first dimensions.
    token_budget: padded positions per batch; changes memory and speed, not results.
    local_files_only: never ask the hub.

    Raises ConfigError for an impossible setting, ModelError for a model that cannot be opened.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        pooling: str | None = None,
        granularity: int | str | None = None,
        max_tokens: int | None = None,
        overlap_tokens: int = 0,
        device: str = "auto",
        dtype: str = "auto",
        backend: str = "auto",
        compile: bool = False,  # noqa: A002 - torch's word for it
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        normalize: bool = True,
        truncate_dim: int | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
        local_files_only: bool = False,
    ) -> None:
        self.settings = EncoderSettings(
            pooling=pooling,  # type: ignore[arg-type]  # checked by the settings
            granularity=granularity,  # type: ignore[arg-type]
            max_tokens=max_tokens,
            overlap_tokens=overlap_tokens,
            device=device,
            dtype=dtype,  # type: ignore[arg-type]
            backend=backend,  # type: ignore[arg-type]
            compile=compile,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            normalize=normalize,
            truncate_dim=truncate_dim,
            token_budget=token_budget,
            local_files_only=local_files_only,
        )
        self.model = OpenModel(model, self.settings)
        self.model_name = self.model.name
        self.directory = self.model.directory
        self.dim = self.model.dim
        self.pooling = self.model.pooling
        self.granularity = self.model.granularity
        self.max_tokens = self.model.max_tokens
        self.query_prompt = self.model.query_prompt
        self.document_prompt = self.model.document_prompt

    def __repr__(self) -> str:
        return (
            f"LMKEncoder({self.model_name!r}, pooling={self.pooling!r}, dim={self.dim}, "
            f"granularity={self.granularity!r}, max_tokens={self.max_tokens})"
        )

    # -- vectors of texts ------------------------------------------------------------------

    def encode_documents(
        self,
        texts: Sequence[str],
        *,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Floats:
        """Vectors of documents, (n, dim) float32, in order.

        progress: called with (texts done, texts) as work goes on. cancelled: asked between
        batches; once it returns True, EncodingCancelled is raised.
        Raises DocumentError, naming the text's index, where one is not valid Unicode.
        """
        return self._vectors(texts, self.document_prompt, progress, cancelled)

    def encode_queries(
        self,
        texts: Sequence[str],
        *,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Floats:
        """Vectors of queries, (n, dim) float32: as documents, but with the query prompt."""
        return self._vectors(texts, self.query_prompt, progress, cancelled)

    def encode_landmarks(
        self,
        texts: Sequence[str],
        *,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[LandmarkEncoding]:
        """One LandmarkEncoding per document, each whole however long it is."""
        found = []
        for encoding in self.iter_landmarks(_checked(texts), cancelled=cancelled):
            found.append(encoding)
            if progress is not None:
                progress(len(found), len(texts))
        return found

    # -- streams ---------------------------------------------------------------------------

    def iter_landmarks(
        self,
        texts: Iterable[str | TextSource],
        *,
        section_tokens: int | None = None,
        cancelled: Cancelled | None = None,
    ) -> Iterator[LandmarkEncoding]:
        """Landmarks of a stream of texts, in order, with bounded memory.

        A str gives one encoding; a TextSource (a text too long to hold) gives one per section, as
        they close. With ``section_tokens`` both are cut in sections of at most so many tokens.
        The stream is read only as far as is needed. Raises DocumentError at a text that fails.
        """
        # A run of one kind of text shares its batches; where the kind changes a new run begins.
        offset = 0
        for is_source, run in groupby(texts, key=lambda text: not isinstance(text, str)):
            tokens = section_tokens
            if is_source and tokens is None:
                tokens = self.default_section_tokens
            begin = offset
            for encoding in self._encodings(run, tokens, self.document_prompt, cancelled, begin):
                yield encoding
                offset = encoding.index + 1

    def iter_sections(
        self,
        items: Iterable[StreamItem],
        section_tokens: int | None,
        *,
        cancelled: Cancelled | None = None,
    ) -> Iterator[Event]:
        """The stream an ingest is made of: sections of each text, then its TextDone or TextFailed.

        A text that fails does not end the stream.
        """
        return self._stream(self.document_prompt, section_tokens, cancelled).run(items)

    def plan_only(self, items: Iterable[StreamItem], section_tokens: int | None) -> Iterator[Event]:
        """As `iter_sections` with nothing wanted: cuts and counts, but encodes nothing."""
        unwanted = (replace(item, wanted=lambda _: False) for item in items)
        return self.iter_sections(unwanted, section_tokens)

    # -- identity and sizes ----------------------------------------------------------------

    @property
    def space(self) -> str:
        """Vectors are comparable exactly when this is equal (hex)."""
        return self.model.space_parts.digest

    @property
    def space_parts(self) -> Space:
        """What the space is made of, to explain a mismatch."""
        return self.model.space_parts

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints mean the same document vectors within tolerance (hex)."""
        return digest_of(self.model.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> dict[str, Any]:
        """What the fingerprint is made of."""
        return self.model.fingerprint_parts

    @property
    def window_tokens(self) -> int:
        """Text tokens that one full window takes, in whole chunks."""
        return self.model.window_tokens

    @property
    def default_section_tokens(self) -> int:
        """The largest whole number of windows up to 1,024 tokens."""
        return self.model.default_section_tokens

    @property
    def max_section_tokens(self) -> int:
        """The most tokens of a section whose landmarks still fit one Qdrant point."""
        return self.model.max_section_tokens

    @property
    def dtype(self) -> str:
        """The dtype that computation runs in."""
        return self.model.load().dtype

    @property
    def device(self) -> str:
        """The device that computation runs on."""
        return self.model.load().device

    @property
    def backend(self) -> str:
        """What runs the model: "torch", "openvino" or "onnx"."""
        return self.model.load().name

    @property
    def has_landmarks(self) -> bool:
        """Sections come with landmarks."""
        return True

    def load(self) -> LMKEncoder:
        """Open the weights now instead of at the first use. Returns the encoder itself."""
        self.model.load()
        return self

    # -- inside ----------------------------------------------------------------------------

    def _vectors(
        self,
        texts: Sequence[str],
        prompt: str,
        progress: Progress | None,
        cancelled: Cancelled | None,
    ) -> Floats:
        vectors = np.empty((len(texts), self.dim), np.float32)
        for encoding in self._encodings(_checked(texts), None, prompt, cancelled):
            vectors[encoding.index] = encoding.vector
            if progress is not None:
                progress(encoding.index + 1, len(texts))
        return vectors

    def _encodings(
        self,
        texts: Iterable[str | TextSource],
        section_tokens: int | None,
        prompt: str,
        cancelled: Cancelled | None,
        first_index: int = 0,
    ) -> Iterator[LandmarkEncoding]:
        """The stream as LandmarkEncodings; one is held back to know the last of its text."""
        held: LandmarkEncoding | None = None
        stream = self._stream(prompt, section_tokens, cancelled)
        for event in stream.run(StreamItem(text) for text in texts):
            if isinstance(event, TextFailed):
                index = first_index + event.index
                raise DocumentError(f"text {index}: {event.error}", event.error.reason)
            if isinstance(event, SectionEncoding):
                if held is not None:
                    yield held
                held = _as_encoding(event, first_index)
            elif held is not None:
                yield replace(held, is_last=True)
                held = None

    def _stream(
        self, prompt: str, section_tokens: int | None, cancelled: Cancelled | None
    ) -> SectionStream:
        if section_tokens is not None and section_tokens < 1:
            raise ConfigError(f"section_tokens={section_tokens} must be at least 1")
        return SectionStream(
            Planner(self.model.tokenizer, self.model.layout(prompt, section_tokens)),
            self.model.load,
            self.model.project,
            token_budget=self.settings.token_budget,
            normalize=self.settings.normalize,
            cancelled=cancelled,
        )


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise ConfigError("pass a list of texts, not one string: encode_documents([text])")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DocumentError(
                f"text {index} is a {type(text).__name__}, not a string", "not_text"
            )
    return texts


def _as_encoding(section: SectionEncoding, first_index: int) -> LandmarkEncoding:
    assert section.vector is not None
    assert section.landmarks is not None
    assert section.weights is not None
    return LandmarkEncoding(
        vector=section.vector,
        landmarks=section.landmarks,
        spans=section.spans,
        weights=section.weights,
        chunk_tokens=section.chunk_tokens,
        n_tokens=section.n_tokens,
        n_windows=section.n_windows,
        n_unk=section.n_unk,
        index=first_index + section.index,
        section=section.ordinal,
        is_last=False,
    )
