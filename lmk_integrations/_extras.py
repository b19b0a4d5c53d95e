"""Optional dependencies: one way to ask for them, one message when they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from lmk_integrations.errors import MissingExtraError


def require(module: str, *, extra: str) -> ModuleType:
    """Import ``module`` or raise MissingExtraError with the pip command that provides it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is there; something that it needs is not
        raise MissingExtraError(
            f"{module!r} is not installed. Install it with: pip install 'lmk-integrations[{extra}]'"
        ) from error
