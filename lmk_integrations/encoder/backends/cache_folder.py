"""Where files that can be made again are kept between runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "lmk-integrations"


def cache_folder() -> Path:
    """LMK_CACHE where set, else a folder of this package in the user's cache folder.

    That is $XDG_CACHE_HOME or ~/.cache; ~/Library/Caches on macOS; %LOCALAPPDATA% on Windows.
    """
    if own := os.environ.get("LMK_CACHE"):
        return Path(own).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / _NAME
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser() / _NAME
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / _NAME
