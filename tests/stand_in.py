"""An encoder whose backend only looks as if it encoded: for tests of how much, not of how well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations import LMKEncoder
from lmk_integrations.encoder.backends.base import WindowInput


class StandIn:
    """A `Backend` whose rows are a fixed function of the token ids."""

    dtype = "float32"
    device = "cpu"

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._table = np.random.default_rng(0).standard_normal((4096, dim), np.float32)

    def rows(self, windows: Sequence[WindowInput]) -> list[NDArray[np.float32]]:
        """A row of the table for each run, chosen by all tokens up to its end."""
        return [self._table[np.cumsum(w.ids)[w.stops - 1] % len(self._table)] for w in windows]


def stand_in(**settings: Any) -> LMKEncoder:
    """The default model's tokenizer, windows and sections, with a `StandIn` for its weights."""
    encoder = LMKEncoder(dtype="float32", **settings)
    backend = StandIn(encoder.dim)
    encoder.model.load = lambda: backend  # type: ignore[method-assign]
    return encoder
