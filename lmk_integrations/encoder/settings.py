"""The encoder's options, checked before any model is opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from lmk_integrations.core.pooling import POOLINGS, Pooling
from lmk_integrations.errors import ConfigError

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]
BackendName = Literal["auto", "torch", "openvino", "onnx"]
Granularity = int | Literal["sentence"]

DEFAULT_TOKEN_BUDGET = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """Options of `LMKEncoder`; None means "as the model directory says".

    pooling: "lmk", or "mean", "cls", "last" for encoders not trained for landmarks.
    granularity: tokens per landmark, or "sentence".
    max_tokens: positions one window may have, special tokens and landmarks included.
    overlap_tokens: context read again before a window's own chunks; 0 is none.
    dtype: of the computation; "auto" is bfloat16 where the hardware multiplies it, else float32.
        "int8" rounds weights and activations: other vectors, see `backends.graph_int8`.
    backend: what runs the model; "auto" chooses by the rule in `backends.choose`.
    compile: run the model through torch.compile, which takes up to a minute at the first batches
        and gains next to nothing on a CPU: for long runs on a GPU. The same vectors to rounding;
        for backend="torch", which "auto" then is.
    token_budget: padded positions per batch; bounds memory, does not change results.
    truncate_dim: keep the first dimensions only (Matryoshka models).
    """

    pooling: Pooling | None = None
    granularity: Granularity | None = None
    max_tokens: int | None = None
    overlap_tokens: int = 0
    device: str = "auto"
    dtype: Dtype = "auto"
    backend: BackendName = "auto"
    compile: bool = False
    query_prompt: str | None = None
    document_prompt: str | None = None
    normalize: bool = True
    truncate_dim: int | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET
    local_files_only: bool = False

    def __post_init__(self) -> None:
        if self.pooling is not None:
            check_choice("pooling", self.pooling, POOLINGS)
        if self.granularity is not None and self.granularity != "sentence":
            check_range("granularity", self.granularity, 1, 4096)
        if self.max_tokens is not None:
            check_range("max_tokens", self.max_tokens, 8, 1 << 22)
        check_range("overlap_tokens", self.overlap_tokens, 0, 1 << 20)
        check_choice("dtype", self.dtype, get_args(Dtype))
        check_choice("backend", self.backend, get_args(BackendName))
        self._check_compile()
        if self.truncate_dim is not None:
            check_range("truncate_dim", self.truncate_dim, 1, 1 << 16)
        check_range("token_budget", self.token_budget, 1, 1 << 26)
        for name in ("query_prompt", "document_prompt"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and is_unicode(value)):
                raise ConfigError(f"{name} must be a string or None, got {value!r}")

    def _check_compile(self) -> None:
        """Only PyTorch's own backend compiles; the others run graphs that are made already."""
        check_bool("compile", self.compile)
        if self.compile and self.backend not in ("auto", "torch"):
            raise ConfigError(
                f"compile=True is not to be had with backend={self.backend!r}; use "
                "backend='torch', or compile=False"
            )
        if self.compile and self.dtype == "int8":
            raise ConfigError(
                "compile=True is not to be had with dtype='int8'; use another dtype, or "
                "compile=False"
            )

    def to_dict(self) -> dict[str, Any]:
        """All options as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EncoderSettings:
        """The opposite of `to_dict`; an unknown name is a ConfigError."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ConfigError(
                f"unknown encoder option {unknown[0]!r}; known are {', '.join(sorted(known))}"
            )
        return cls(**values)


def is_unicode(text: str) -> bool:
    """Whether a tokenizer can take the text: it holds no lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")


def check_bool(name: str, value: object) -> None:
    """Raise ConfigError unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={value!r} must be True or False")


def check_range(name: str, value: object, low: int, high: int) -> None:
    """Raise ConfigError unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r} must be a whole number from {low} to {high}")
