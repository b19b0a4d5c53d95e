"""Small JSON files of a model directory, read with errors that name the file and the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmk_integrations.encoder.settings import is_unicode
from lmk_integrations.errors import ModelError


def read_json(path: Path, kind: type, *, optional: bool = False) -> Any:
    """The value in a file; None where an optional file is missing.

    Raises ModelError where it is missing, damaged, or not a ``kind`` (list or dict).
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if optional:
            return None
        raise ModelError(f"the model directory lacks {path}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, kind):
        raise ModelError(f"{path} must hold a JSON {'array' if kind is list else 'object'}")
    return value


def whole_of(path: Path, values: Mapping[str, Any], name: str, *, least: int = 1) -> int | None:
    """A whole number of ``values``, which were read from ``path``; None where there is none."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        bound = "above 0" if least == 1 else f"from {least} on"
        raise ModelError(f"{path}: {name} must be a whole number {bound}, not {value!r}")
    return value


def text_of(
    path: Path, values: Mapping[str, Any], name: str, default: str | None = None
) -> str | None:
    """A text of ``values``, which were read from ``path``."""
    value = values.get(name, default)
    if value is not None and not (isinstance(value, str) and is_unicode(value)):
        raise ModelError(f"{path}: {name} must be a text, not {value!r}")
    return value
