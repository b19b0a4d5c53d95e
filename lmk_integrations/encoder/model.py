"""A model directory, opened: its files, tokenizer and weights, and what they fix."""

from __future__ import annotations

import threading
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import Pooling
from lmk_integrations.core.sections import default_section_tokens, max_section_rows
from lmk_integrations.encoder.backends.base import Backend, Ints
from lmk_integrations.encoder.backends.calibration_text import CALIBRATION_TEXTS
from lmk_integrations.encoder.backends.choose import INT8_SCHEME, ModelFacts, open_backend
from lmk_integrations.encoder.dense import Dense, load_dense
from lmk_integrations.encoder.identity import (
    ALGORITHM_VERSION,
    Space,
    config_digest,
    tokenizer_digest,
    weights_digest,
)
from lmk_integrations.encoder.landmark_files import LandmarkStyle
from lmk_integrations.encoder.locate import BASE_MODEL, DEFAULT_MODEL, locate_model
from lmk_integrations.encoder.model_files import read_model_files
from lmk_integrations.encoder.plan import Layout, Planner
from lmk_integrations.encoder.positions import position_limit
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import ConfigError, ModelError

Floats = NDArray[np.float32]

DEFAULT_GRANULARITY = 32
_BASE_MODEL_WINDOW = 512  # its position table; the 256 in its settings is how it was trained


class OpenModel:
    """The options of `EncoderSettings` with every None resolved against one model directory.

    The weights themselves are opened at the first `load`; everything else is checked here.
    """

    def __init__(self, model: str | Path | None, settings: EncoderSettings) -> None:
        self.settings = settings
        self.name = DEFAULT_MODEL if model is None else str(model)
        self._lock = threading.Lock()
        self._loaded: Backend | None = None
        self.directory = locate_model(model, local_files_only=settings.local_files_only)
        self._files = read_model_files(self.directory)
        self.tokenizer = Tokenizer(
            self._files.transformer,
            lower_case=self._files.lower_case,
            landmark_id=self._files.landmarks.token_id,
        )
        self.dense: list[Dense] = [load_dense(files) for files in self._files.dense]
        self.pooling: Pooling = settings.pooling or self._files.pooling or "mean"
        self._hidden_size, positions = position_limit(self._files.transformer)
        self.max_tokens = self._window(positions)
        self.query_prompt = _chosen(settings.query_prompt, self._files.query_prompt)
        self.document_prompt = _chosen(settings.document_prompt, self._files.document_prompt)
        self.granularity: int | str = settings.granularity or self._saved_granularity()
        self.dim = self._dim()
        self._check()

    @property
    def landmarks(self) -> LandmarkStyle:
        """How the model's landmarks stand."""
        return self._files.landmarks

    @property
    def _framed(self) -> bool:
        return self.pooling == "lmk" and self.landmarks.framed

    @property
    def _suffix(self) -> tuple[int, ...]:
        """The special tokens behind a window's last chunk."""
        return self.tokenizer.suffix if self.pooling != "lmk" or self._framed else ()

    @property
    def transformer(self) -> Path:
        """Where config.json and the weights lie."""
        return self._files.transformer

    @cached_property
    def space_parts(self) -> Space:
        """What the space is made of, to explain a mismatch."""
        directories = [self._files.transformer, *(files.directory for files in self._files.dense)]
        frame = {
            "prefix": self.tokenizer.prefix,
            "suffix": self.tokenizer.suffix,
            "landmark": self.tokenizer.landmark_id if self.pooling == "lmk" else None,
            "lower_case": self._files.lower_case,
            "pool_prompt": self._files.pool_prompt,
            "activations": [files.activation for files in self._files.dense],
        }
        if self._framed:
            frame["framed"] = True
        return Space(
            weights=weights_digest(directories),
            architecture=config_digest(self._files.transformer),
            tokenizer=tokenizer_digest(
                self.tokenizer.to_str(), lambda text: self.tokenizer.encode(text).ids, frame
            ),
            pooling=self.pooling,
            dim=self.dim,
            normalize=self.settings.normalize,
        )

    @property
    def fingerprint_parts(self) -> dict[str, Any]:
        """What makes two encoders give the same vectors within tolerance."""
        return {
            "space": self.space_parts.digest,
            "granularity": self.granularity,
            "max_tokens": self.max_tokens,
            "overlap_tokens": self.settings.overlap_tokens,
            "document_prompt": self.document_prompt,
            "int8": INT8_SCHEME if self.settings.dtype == "int8" else None,
            "algorithm": ALGORITHM_VERSION,
        }

    @property
    def window_tokens(self) -> int:
        """Text tokens that one full window takes, in whole chunks."""
        tokenizer = self.tokenizer
        prompt = len(tokenizer.encode(self.document_prompt).ids) if self.document_prompt else 0
        room = self.max_tokens - len(tokenizer.prefix) - prompt - len(self._suffix)
        if self.granularity == "sentence":
            return max(1, room)
        per_chunk = int(self.granularity) + (1 if self.pooling == "lmk" else 0)
        return max(1, room // per_chunk) * int(self.granularity)

    @property
    def default_section_tokens(self) -> int:
        """The largest whole number of windows up to 1,024 tokens."""
        return default_section_tokens(self.window_tokens, self.max_section_tokens)

    @property
    def max_section_tokens(self) -> int:
        """The most tokens of a section whose landmarks still fit one Qdrant point."""
        per_row = 1 if self.granularity == "sentence" else int(self.granularity)
        first_is_short = self._framed and bool(self.document_prompt)
        return (max_section_rows(self.dim) - first_is_short) * per_row

    def load(self) -> Backend:
        """Open the weights now instead of at the first use."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = open_backend(self.settings, self._facts())
        return self._loaded

    def _facts(self) -> ModelFacts:
        """What a backend needs to know."""
        return ModelFacts(
            transformer=self._files.transformer,
            weights=lambda: self.space_parts.weights,
            architecture=lambda: self.space_parts.architecture,
            pad_id=self.tokenizer.pad_id,
            single_rows=self.pooling == "lmk",
            max_length=self.max_tokens,
            calibration=self._calibration,
        )

    def _calibration(self) -> list[Ints]:
        """Token ids of windows as they are at work, of a little text of several kinds."""
        texts = [*CALIBRATION_TEXTS, " ".join(CALIBRATION_TEXTS)]
        planner = Planner(self.tokenizer, self.layout(self.document_prompt, None))
        return [
            window.input.ids
            for text in texts
            for group in planner.plan(text)
            for window in group.windows
        ]

    @property
    def document_prefix(self) -> tuple[int, ...]:
        """The ids before a document's first token: special tokens, then the prompt's."""
        prompt = self.tokenizer.encode(self.document_prompt).ids if self.document_prompt else ()
        return (*self.tokenizer.prefix, *(int(value) for value in prompt))

    def layout(self, prompt: str, section_tokens: int | None) -> Layout:
        """How texts with this prompt are laid out."""
        tokenizer = self.tokenizer
        fallback = tokenizer.landmark_id if tokenizer.landmark_id is not None else tokenizer.pad_id
        return Layout(
            pooling=self.pooling,
            granularity=self.granularity,
            capacity=self.max_tokens,
            overlap_tokens=self.settings.overlap_tokens,
            section_tokens=section_tokens,
            prefix=tokenizer.prefix,
            suffix=self._suffix,
            landmark_id=tokenizer.landmark_id,
            fallback_id=fallback,
            unk_id=tokenizer.unk_id,
            pool_prompt=self._files.pool_prompt,
            prompt=prompt,
            framed=self._framed,
        )

    def project(self, rows: Floats) -> Floats:
        """(n, hidden) states -> (n, dim): the model's Dense modules, then the dimensions kept."""
        for dense in self.dense:
            rows = dense(rows)
        return rows[:, : self.dim]

    def _dim(self) -> int:
        full = self._hidden_size
        for dense, files in zip(self.dense, self._files.dense, strict=True):
            if dense.weight.shape[1] != full:
                raise ModelError(
                    f"the Dense module in {files.directory} takes {dense.weight.shape[1]} "
                    f"dimensions, but gets {full}"
                )
            full = len(dense.bias)
        wanted = self.settings.truncate_dim
        if wanted is not None and wanted > full:
            raise ConfigError(f"truncate_dim={wanted} exceeds the model's {full} dimensions")
        return wanted or full

    def _window(self, positions: int) -> int:
        asked = self.settings.max_tokens
        if asked is not None:
            if asked > positions:
                raise ConfigError(
                    f"max_tokens={asked} exceeds the {positions} positions of {self.name!r}"
                )
            return asked
        if self.name == BASE_MODEL:
            return _BASE_MODEL_WINDOW
        saved = self._files.max_tokens or self.tokenizer.model_max_length
        return min(saved, positions)

    def _saved_granularity(self) -> int:
        saved = self._files.granularity or DEFAULT_GRANULARITY
        if not self._framed:
            return saved
        # Landmark modules may have chunks that no window takes whole: they cut the text there.
        return max(1, min(saved, self.max_tokens - sum(self._around()) - 1))

    def _around(self) -> tuple[int, int]:
        """(special tokens around a text, tokens of the longest prompt)."""
        prompts = (self.query_prompt, self.document_prompt)
        longest = max(len(self.tokenizer.encode(prompt).ids) for prompt in prompts)
        return len(self.tokenizer.prefix) + len(self.tokenizer.suffix), longest

    def _check(self) -> None:
        """Refuse what cannot work, warn of what cannot work well."""
        if not list(self._files.transformer.glob("*.safetensors")):
            raise ModelError(
                f"{self._files.transformer} holds no .safetensors weights. Pickled weights (.bin, "
                ".pt) can run code and are not opened: convert them with safetensors first"
            )
        if self.pooling == "lmk" and self.tokenizer.landmark_id is None:
            raise ConfigError(
                f"{self.name!r} has neither a separator nor an end token to use as landmark; "
                "use pooling='mean'"
            )
        frame, longest = self._around()
        chunk = 1 if self.granularity == "sentence" else int(self.granularity)
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
            _warn_untrained(self.name)
        if self._framed:
            self._check_framed(longest)

    def _check_framed(self, longest_prompt: int) -> None:
        """Refuse or warn where the vectors would not be those of the model's own modules."""
        layout, landmark = self.layout("", None), self.tokenizer.landmark_id
        if landmark in layout.prefix or landmark in layout.suffix[layout.n_closing :]:
            raise ModelError(
                f"the tokenizer of {self.name!r} puts the landmark {landmark} around a text in a "
                "place where it cannot be pooled; supported are landmarks right behind a text"
            )
        if self.granularity != "sentence" and longest_prompt >= int(self.granularity):
            warnings.warn(
                f"a prompt of {self.name!r} takes {longest_prompt} tokens, which is no less than "
                f"its granularity={self.granularity}: sentence-transformers would put landmarks "
                "into the prompt, this package does not. Vectors of texts with it will differ",
                UserWarning,
                stacklevel=5,
            )


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
        stacklevel=5,
    )


def _chosen(asked: str | None, saved: str | None) -> str:
    return asked if asked is not None else (saved or "")
