"""A progress line on stderr, and only where a person is looking."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, TypeVar

_Self = TypeVar("_Self", bound="Bar")


class Bar:
    """What the commands' progress lines share. Silent unless stderr is a terminal."""

    _bar: Any = None

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self, total: int | None, **options: Any) -> None:
        """Begin a line; options are tqdm's."""
        from tqdm import tqdm

        self.close()
        self._bar = tqdm(
            total=total,
            disable=not sys.stderr.isatty(),
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
            **options,
        )

    def close(self) -> None:
        """End the line, if there is one."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class StepsBar(Bar):
    """Work of several steps, a line for each: what is being done, and how far it is.

    unit: what a step counts.
    """

    def __init__(self, unit: str) -> None:
        self._unit = f" {unit}"
        self._step = ""

    def update(self, step: str, done: int, total: int) -> None:
        """Show where a step stands."""
        if step != self._step:
            self._step = step
            self.open(total, desc=step, unit=self._unit)
        self._bar.update(done - self._bar.n)
