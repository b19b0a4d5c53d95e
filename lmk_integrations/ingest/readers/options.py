"""How files are read."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field

from lmk_integrations.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Settings of reading.

    include, exclude: globs, matched against a file's path below its folder and against its name;
        they choose among the files of folders. An excluded folder is not entered.
    only: ids of files, folders or entries, as in the failed items of a report; of the files given
        no others are read. None reads all.
    encoding: of text files; None finds it for each.
    pdf_password: for encrypted PDFs; never shown.
    max_bytes: larger files are skipped.
    follow_symlinks: also follow links that stay inside their folder.
    pdf_timeout_s, memory_limit_mb: what one PDF or Office file may take to be read, in seconds and
        in MiB beyond the parser's own.
    large_file_bytes: text files above it are read in pieces, twice, instead of held in memory.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    encoding: str | None = None
    pdf_password: str | None = field(default=None, repr=False)
    max_bytes: int | None = None
    follow_symlinks: bool = False
    pdf_timeout_s: float = 120.0
    memory_limit_mb: int = 2048
    large_file_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        if self.only is not None:
            object.__setattr__(self, "only", _names(self.only))
        for name in ("include", "exclude"):
            globs = getattr(self, name)
            if isinstance(globs, str) or not all(isinstance(g, str) and g for g in globs):
                raise ConfigError(f'{name}={globs!r} must be a tuple of globs, such as ("*.md",)')
            object.__setattr__(self, name, tuple(globs))
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _codec(self.encoding))
        if self.pdf_password is not None and not isinstance(self.pdf_password, str):
            raise ConfigError("pdf_password must be a text")
        if not isinstance(self.follow_symlinks, bool):
            raise ConfigError(f"follow_symlinks={self.follow_symlinks!r} must be True or False")
        for name, least in (("max_bytes", 0), ("memory_limit_mb", 64), ("large_file_bytes", 1)):
            value = getattr(self, name)
            if name == "max_bytes" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name}={value!r} must be a whole number of at least {least}")
        seconds = self.pdf_timeout_s
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigError(f"pdf_timeout_s={seconds!r} must be a number of seconds above 0")


def _names(only: object) -> tuple[str, ...]:
    names = tuple(only) if isinstance(only, Iterable) and not isinstance(only, str) else (only,)
    if isinstance(only, str) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"only={only!r} must be a tuple of ids, as in a report's failed items")
    return names


def _codec(name: str) -> str:
    try:
        found = codecs.lookup(name).name
        "".encode(found)
    except (LookupError, TypeError, ValueError):
        raise ConfigError(
            f"encoding={name!r} is not a text encoding that Python knows; "
            "common ones are utf-8, cp1252, latin-1, utf-16, shift_jis, gb18030"
        ) from None
    return found
