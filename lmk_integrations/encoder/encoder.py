"""LMKEncoder: tokenise -> plan -> backend -> pool."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import Pooling
from lmk_integrations.core.sections import default_section_tokens, max_section_rows
from lmk_integrations.encoder.backends.base import Backend
from lmk_integrations.encoder.dense import Dense, load_dense
from lmk_integrations.encoder.identity import (
    ALGORITHM_VERSION,
    Space,
    config_digest,
    digest_of,
    tokenizer_digest,
    weights_digest,
)
from lmk_integrations.encoder.locate import DEFAULT_MODEL, locate_model
from lmk_integrations.encoder.model_files import read_model_files
from lmk_integrations.encoder.plan import Layout, Planner
from lmk_integrations.encoder.positions import position_limit
from lmk_integrations.encoder.records import LandmarkEncoding, SectionEncoding, TextFailed
from lmk_integrations.encoder.settings import DEFAULT_TOKEN_BUDGET, EncoderSettings
from lmk_integrations.encoder.stream import Event, SectionStream, StreamItem
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import ConfigError, DocumentError, ModelError
from lmk_integrations.records import TextSource

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]

DEFAULT_GRANULARITY = 32
_DEFAULT_MODEL_WINDOW = 512  # its position table; the 256 in its settings is how it was trained


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
    device, dtype: "auto" picks the GPU, and bfloat16 where the hardware multiplies it.
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
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            normalize=normalize,
            truncate_dim=truncate_dim,
            token_budget=token_budget,
            local_files_only=local_files_only,
        )
        self.model_name = DEFAULT_MODEL if model is None else str(model)
        self._lock = threading.Lock()
        self._loaded: Backend | None = None
        self.directory = locate_model(model, local_files_only=local_files_only)
        self._files = read_model_files(self.directory)
        self._tokenizer = Tokenizer(self._files.transformer, lower_case=self._files.lower_case)
        self._dense: list[Dense] = [load_dense(files) for files in self._files.dense]
        self.pooling: Pooling = self.settings.pooling or self._files.pooling or "mean"
        self.granularity: int | str = (
            self.settings.granularity or self._files.granularity or DEFAULT_GRANULARITY
        )
        self._hidden_size, positions = position_limit(self._files.transformer)
        self.max_tokens = self._window(positions)
        self.query_prompt = _chosen(self.settings.query_prompt, self._files.query_prompt)
        self.document_prompt = _chosen(self.settings.document_prompt, self._files.document_prompt)
        self.dim = self._dim()
        self._check()

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
            count = 0
            for encoding in self._encodings(run, tokens, self.document_prompt, cancelled):
                yield replace(encoding, index=encoding.index + offset)
                count = encoding.index + 1
            offset += count

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

    # -- identity --------------------------------------------------------------------------

    @cached_property
    def space_parts(self) -> Space:
        """What the space is made of, to explain a mismatch."""
        directories = [self._files.transformer, *(files.directory for files in self._files.dense)]
        frame = {
            "prefix": self._tokenizer.prefix,
            "suffix": self._tokenizer.suffix,
            "landmark": self._tokenizer.landmark_id if self.pooling == "lmk" else None,
            "lower_case": self._files.lower_case,
            "pool_prompt": self._files.pool_prompt,
            "activations": [files.activation for files in self._files.dense],
        }
        return Space(
            weights=weights_digest(directories),
            architecture=config_digest(self._files.transformer),
            tokenizer=tokenizer_digest(self._tokenizer.to_str(), frame),
            pooling=self.pooling,
            dim=self.dim,
            normalize=self.settings.normalize,
        )

    @property
    def space(self) -> str:
        """Vectors are comparable exactly when this is equal (hex)."""
        return self.space_parts.digest

    @property
    def fingerprint_parts(self) -> dict[str, Any]:
        """What makes two encoders give the same vectors within tolerance."""
        return {
            "space": self.space,
            "granularity": self.granularity,
            "max_tokens": self.max_tokens,
            "overlap_tokens": self.settings.overlap_tokens,
            "document_prompt": self.document_prompt,
            "int8": None,
            "algorithm": ALGORITHM_VERSION,
        }

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints mean the same document vectors within tolerance (hex)."""
        return digest_of(self.fingerprint_parts)

    # -- sizes -----------------------------------------------------------------------------

    @property
    def window_tokens(self) -> int:
        """Text tokens that one full window takes, in whole chunks."""
        tokenizer = self._tokenizer
        prompt = len(tokenizer.encode(self.document_prompt).ids) if self.document_prompt else 0
        room = self.max_tokens - len(tokenizer.prefix) - prompt
        if self.pooling != "lmk":
            room -= len(tokenizer.suffix)
        if self.granularity == "sentence":
            return max(1, room)
        per_chunk = int(self.granularity) + (1 if self.pooling == "lmk" else 0)
        return max(1, room // per_chunk) * int(self.granularity)

    @property
    def default_section_tokens(self) -> int:
        """The largest whole number of windows up to 1,024 tokens."""
        return default_section_tokens(self.window_tokens)

    @property
    def max_section_tokens(self) -> int:
        """The most tokens of a section whose landmarks still fit one Qdrant point."""
        per_row = 1 if self.granularity == "sentence" else int(self.granularity)
        return max_section_rows(self.dim) * per_row

    @property
    def dtype(self) -> str:
        """The dtype that computation runs in."""
        return self.load().dtype

    @property
    def device(self) -> str:
        """The device that computation runs on."""
        return self.load().device

    # -- inside ----------------------------------------------------------------------------

    def load(self) -> Backend:
        """Open the weights now instead of at the first use."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    from lmk_integrations.encoder.backends.torch import TorchBackend

                    self._loaded = TorchBackend(
                        self._files.transformer,
                        pad_id=self._tokenizer.pad_id,
                        device=self.settings.device,
                        dtype=self.settings.dtype,
                    )
        return self._loaded

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
    ) -> Iterator[LandmarkEncoding]:
        """The stream as LandmarkEncodings; one is held back to know the last of its text."""
        held: LandmarkEncoding | None = None
        stream = self._stream(prompt, section_tokens, cancelled)
        for event in stream.run(StreamItem(text) for text in texts):
            if isinstance(event, TextFailed):
                raise DocumentError(f"text {event.index}: {event.error}", event.error.reason)
            if isinstance(event, SectionEncoding):
                if held is not None:
                    yield held
                held = _as_encoding(event)
            elif held is not None:
                yield replace(held, is_last=True)
                held = None

    def _stream(
        self, prompt: str, section_tokens: int | None, cancelled: Cancelled | None
    ) -> SectionStream:
        if section_tokens is not None and section_tokens < 1:
            raise ConfigError(f"section_tokens={section_tokens} must be at least 1")
        return SectionStream(
            Planner(self._tokenizer, self._layout(prompt, section_tokens)),
            self.load,
            self._project,
            token_budget=self.settings.token_budget,
            normalize=self.settings.normalize,
            cancelled=cancelled,
        )

    def _layout(self, prompt: str, section_tokens: int | None) -> Layout:
        tokenizer = self._tokenizer
        fallback = tokenizer.landmark_id if tokenizer.landmark_id is not None else tokenizer.pad_id
        return Layout(
            pooling=self.pooling,
            granularity=self.granularity,
            capacity=self.max_tokens,
            overlap_tokens=self.settings.overlap_tokens,
            section_tokens=section_tokens,
            prefix=tokenizer.prefix,
            suffix=tokenizer.suffix,
            landmark_id=tokenizer.landmark_id,
            fallback_id=fallback,
            unk_id=tokenizer.unk_id,
            pool_prompt=self._files.pool_prompt,
            prompt=prompt,
        )

    def _project(self, rows: Floats) -> Floats:
        """(n, hidden) states -> (n, dim): the model's Dense modules, then the dimensions kept."""
        for dense in self._dense:
            rows = dense(rows)
        return rows[:, : self.dim]

    def _dim(self) -> int:
        full = len(self._dense[-1].bias) if self._dense else self._hidden_size
        wanted = self.settings.truncate_dim
        if wanted is not None and wanted > full:
            raise ConfigError(f"truncate_dim={wanted} exceeds the model's {full} dimensions")
        return wanted or full

    def _window(self, positions: int) -> int:
        asked = self.settings.max_tokens
        if asked is not None:
            if asked > positions:
                raise ConfigError(
                    f"max_tokens={asked} exceeds the {positions} positions of {self.model_name!r}"
                )
            return asked
        if self.model_name == DEFAULT_MODEL:
            return _DEFAULT_MODEL_WINDOW
        saved = self._files.max_tokens or self._tokenizer.model_max_length
        return min(saved, positions)

    def _check(self) -> None:
        """Refuse what cannot work, warn of what cannot work well."""
        if not list(self._files.transformer.glob("*.safetensors")):
            raise ModelError(
                f"{self._files.transformer} holds no .safetensors weights. Pickled weights (.bin, "
                ".pt) can run code and are not opened: convert them with safetensors first"
            )
        if self.pooling == "lmk" and self._tokenizer.landmark_id is None:
            raise ConfigError(
                f"{self.model_name!r} has neither a separator nor an end token to use as landmark; "
                "use pooling='mean'"
            )
        frame = len(self._tokenizer.prefix) + len(self._tokenizer.suffix)
        chunk = 1 if self.granularity == "sentence" else int(self.granularity)
        prompts = (self.query_prompt, self.document_prompt)
        longest = max(len(self._tokenizer.encode(prompt).ids) for prompt in prompts)
        if frame + longest + chunk + 1 > self.max_tokens:
            raise ConfigError(
                f"granularity={self.granularity} does not fit a window of max_tokens="
                f"{self.max_tokens} beside {frame} special and {longest} prompt tokens"
            )
        if self.settings.overlap_tokens > self.max_tokens // 2:
            raise ConfigError(
                f"overlap_tokens={self.settings.overlap_tokens} exceeds half of the window "
                f"(max_tokens={self.max_tokens})"
            )
        if self.pooling == "lmk" and not self._files.landmark_trained:
            _warn_untrained(self.model_name)


_warned: set[str] = set()


def _warn_untrained(model: str) -> None:
    """Once per model and process: landmarks in an encoder that never saw them lose quality."""
    if model in _warned:
        return
    _warned.add(model)
    warnings.warn(
        f"{model!r} was not trained for landmarks, and gets worse with them. Use its own pooling "
        f"(pooling=None), or adapt it first: lmk adapt --base {model} --text DIR --out DIR",
        UserWarning,
        stacklevel=4,
    )


def _chosen(asked: str | None, saved: str | None) -> str:
    return asked if asked is not None else (saved or "")


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise ConfigError("pass a list of texts, not one string: encode_documents([text])")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DocumentError(
                f"text {index} is a {type(text).__name__}, not a string", "not_text"
            )
    return texts


def _as_encoding(section: SectionEncoding) -> LandmarkEncoding:
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
        index=section.index,
        section=section.ordinal,
        is_last=False,
    )
