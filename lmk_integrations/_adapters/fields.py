"""The encoder's options as pydantic fields, and the encoder they describe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import Self

from lmk_integrations._adapters.worker import Worker
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.settings import DEFAULT_TOKEN_BUDGET
from lmk_integrations.errors import ConfigError


class EncoderOptions(TypedDict, total=False):
    """LMKEncoder's options as keyword arguments; see there for what each means."""

    pooling: str | None
    granularity: int | str | None
    max_tokens: int | None
    overlap_tokens: int
    device: str
    dtype: str
    backend: str
    compile: bool
    query_prompt: str | None
    document_prompt: str | None
    normalize: bool
    truncate_dim: int | None
    token_budget: int
    local_files_only: bool


class EncoderFields(BaseModel):
    """Base of the adapters. Fields tell the configuration; the encoder is made from them.

    The fields cannot be assigned, since the encoder is made once. Copies in one process share the
    encoder; a pickle holds the configuration only, and opens the model again at its first use.
    """

    pooling: str | None = Field(
        default=None, frozen=True, description='"lmk", "mean", "cls", "last"; None: as saved.'
    )
    granularity: int | str | None = Field(
        default=None, frozen=True, description='Tokens per landmark, or "sentence".'
    )
    max_tokens: int | None = Field(
        default=None, frozen=True, description="Positions of one window; longer texts take several."
    )
    overlap_tokens: int = Field(
        default=0, frozen=True, description="Context read again at a window's start."
    )
    device: str = Field(default="auto", frozen=True, description='"cpu", "cuda", "cuda:1", …')
    dtype: str = Field(
        default="auto", frozen=True, description='"float32", "bfloat16", "float16" or "auto".'
    )
    backend: str = Field(default="auto", frozen=True, description="What runs the model.")
    compile: bool = Field(
        default=False, frozen=True, description="Run the model through torch.compile."
    )
    query_prompt: str | None = Field(
        default=None, frozen=True, description="Put before queries; None: as saved, '': none."
    )
    document_prompt: str | None = Field(
        default=None, frozen=True, description="Put before documents; None: as saved, '': none."
    )
    normalize: bool = Field(default=True, frozen=True, description="L2-normalise vectors.")
    truncate_dim: int | None = Field(
        default=None, frozen=True, description="Keep the first dimensions only."
    )
    token_budget: int = Field(
        default=DEFAULT_TOKEN_BUDGET, frozen=True, description="Padded positions per batch."
    )
    local_files_only: bool = Field(default=False, frozen=True, description="Never ask the hub.")

    _runtime: _Runtime = PrivateAttr(default_factory=lambda: _Runtime())

    def __init__(
        self,
        *,
        model: str | Path | None,
        model_name: str | Path | None,
        encoder: LMKEncoder | None,
        options: EncoderOptions,
        **own: Any,
    ) -> None:
        """Check the fields and open the model, unless a ready encoder is given.

        own: the fields of the subclass. Raises ConfigError when two arguments say the same thing.
        """
        super().__init__(**own, **_field_values(model, model_name, encoder, options))
        if encoder is not None:
            self._runtime.adopt(encoder)
        else:
            self.encoder.load()

    @property
    def encoder(self) -> LMKEncoder:
        """The encoder itself: landmarks, spans, dimension, space and fingerprint."""
        return self._runtime.encoder(self._open)

    @property
    def _worker(self) -> Worker:
        """The one thread that this object's async calls run on."""
        return self._runtime.worker

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; one with changed fields opens an encoder of its own at its first use."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            copied._runtime = _Runtime()
        return copied

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The model, and what differs from the defaults."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            changed = value != field.get_default(call_default_factory=True)
            if name == "model_name" or (changed and field.repr and not field.exclude):
                yield name, value

    def _open(self) -> LMKEncoder:
        options = {name: getattr(self, name) for name in EncoderOptions.__annotations__}
        return LMKEncoder(getattr(self, "model_name"), **options)  # noqa: B009 - a subclass's field


class _Runtime:
    """What configuration cannot hold: the open encoder and the worker thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encoder: LMKEncoder | None = None
        self.worker = Worker()

    def encoder(self, make: Callable[[], LMKEncoder]) -> LMKEncoder:
        if self._encoder is None:
            with self._lock:
                if self._encoder is None:
                    self._encoder = make()
        return self._encoder

    def adopt(self, encoder: LMKEncoder) -> None:
        self._encoder = encoder

    def __reduce__(self) -> tuple[type[_Runtime], tuple[()]]:
        return _Runtime, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Runtime:
        return self

    def __eq__(self, other: object) -> bool:  # adapters are equal when their fields are
        return isinstance(other, _Runtime)

    __hash__ = None  # type: ignore[assignment]


def _field_values(
    model: str | Path | None,
    model_name: str | Path | None,
    encoder: LMKEncoder | None,
    options: EncoderOptions,
) -> dict[str, Any]:
    """Field values for what a constructor was given: options, or those of a ready encoder."""
    if model is not None and model_name is not None:
        raise ConfigError(
            f"model={str(model)!r} and model_name={str(model_name)!r} are two names of one option; "
            "pass one of them"
        )
    name = model if model is not None else model_name
    if encoder is None:
        return {**options} if name is None else {**options, "model_name": str(name)}
    given = [key for key in EncoderOptions.__annotations__ if key in options]
    if name is not None:
        given.insert(0, "model")
    if given:
        raise ConfigError(
            f"{', '.join(given)} cannot be given beside encoder=, which has its own: set it there, "
            f"LMKEncoder({given[0]}=…)"
        )
    return {**options, **encoder.settings.to_dict(), "model_name": encoder.model_name}
