"""The one interface behind which torch and the graph engines stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowInput:
    """One window: ids (length,), and the half-open runs of positions whose mean states are wanted.

    starts, stops: (n_rows,); a landmark's own state is the run ``position:position + 1``.
    """

    ids: Ints
    starts: Ints
    stops: Ints


class Backend(Protocol):
    """Runs an encoder. Thread-safe; results do not depend on what shares a batch."""

    name: str
    dim: int
    dtype: str
    device: str

    def rows(self, windows: Sequence[WindowInput]) -> list[Floats]:
        """For each window its (n_rows, dim) float32 rows. Only these leave the device."""
        ...
