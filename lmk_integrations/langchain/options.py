"""Keyword arguments that LangChain lets through unread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lmk_integrations.errors import ConfigError


def refuse(method: str, unknown: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise ConfigError if any keyword is left over: an ignored filter finds what it must not."""
    if unknown:
        raise ConfigError(
            f"{method} does not know {', '.join(f'{name}=' for name in unknown)}; it takes "
            f"{', '.join(known)}"
        )
