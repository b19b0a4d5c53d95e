"""Calls into the native engine, with its failures turned into this package's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lmk_integrations.errors import LMKError, StoreError

# A Rust panic reaches Python as pyo3_runtime.PanicException, which derives from BaseException so
# that `except Exception` does not swallow it. The class cannot be imported, only recognised.
_PANIC = "PanicException"


@contextmanager
def engine_call(what: str, panic_remedy: str = "") -> Iterator[None]:
    """Turn whatever the engine raises inside the block into a StoreError that starts with `what`.

    what: the operation and its object, for instance ``"upsert into collection 'docs'"``.
    panic_remedy: a sentence added when the engine panicked.

    KeyboardInterrupt, SystemExit and MemoryError pass through unchanged, and so do errors of
    this package.
    """
    try:
        yield
    except (LMKError, MemoryError):
        raise
    except Exception as error:
        raise StoreError(f"{what} failed: {error}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        detail = str(error).strip().splitlines()
        message = f"{what} failed inside the engine: {detail[0] if detail else 'panic'}."
        raise StoreError(f"{message} {panic_remedy}".strip()) from error
