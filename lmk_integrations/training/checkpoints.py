"""The output directory of a training: what was begun there, and where to go on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lmk_integrations.encoder.model_files import LMK_CONFIG
from lmk_integrations.errors import ConfigError

REPORT = "training.json"
_FOLDER = "checkpoints"
_SETTINGS = "settings.json"
_LOCK = "training.lock"


def check_out(out: Path, *, resume: bool) -> None:
    """Raise ConfigError unless a training may write to ``out``; cheap, so to be called first.

    It may where nothing is, hidden files apart, and where its own work is and ``resume`` is set.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; pass a directory as out")
    if (out / REPORT).is_file():
        if not resume:
            raise ConfigError(f"{out} holds a finished training; pass another out")
    elif (out / _FOLDER / _SETTINGS).is_file():
        if not resume:
            raise ConfigError(
                f"{out / _FOLDER} holds a training that was cut short; resume it, or delete it"
            )
    elif (out / LMK_CONFIG).exists():
        raise ConfigError(f"{out} holds a model already; pass another out")
    elif out.exists():
        others = sorted(
            path.name
            for path in out.iterdir()
            if path.name != _FOLDER and not path.name.startswith(".")
        )
        if others:
            raise ConfigError(
                f"{out} holds {others[0]!r} already, which is of no training; pass another out"
            )


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a kill leaves the old one, or none, or the new one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


class Checkpoints:
    """The checkpoints below an output directory, and the identity of the training they are of.

    identity: what must be the same for a training to be resumed, as JSON values.
    """

    def __init__(self, out: Path, identity: dict[str, Any]) -> None:
        self._out = out
        self._identity = identity
        self.folder = out / _FOLDER
        self._lock = FileLock(self.folder / _LOCK, thread_local=False)

    def finished(self, *, resume: bool) -> dict[str, Any] | None:
        """The report of a training that is there whole; ConfigError where it is another."""
        check_out(self._out, resume=resume)
        if not (self._out / REPORT).is_file():
            return None
        saved = _read_object(self._out / REPORT)
        self._check_same(saved.pop("identity", {}))
        shutil.rmtree(self.folder, ignore_errors=True)  # killed while it was removing them
        return saved

    @contextmanager
    def begin(self, *, resume: bool) -> Iterator[Path | None]:
        """Hold the folder against other processes; yields the newest whole checkpoint, if any."""
        check_out(self._out, resume=resume)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise ConfigError(
                f"another process is training into {self._out}; wait for it, or pass another out"
            ) from error
        try:
            noted = self.folder / _SETTINGS
            if noted.is_file():
                self._check_same(_read_object(noted))
            write_whole(noted, json.dumps(self._identity, indent=2) + "\n")
            # trainer_state.json is what the trainer writes last, and not at once.
            states = self.folder.glob("checkpoint-*/trainer_state.json")
            whole = [path.parent for path in states if _is_json(path)]
            yield max(whole, key=lambda path: int(path.name.rsplit("-", 1)[1]), default=None)
        finally:
            self._lock.release()

    def finish(self, report: dict[str, Any]) -> None:
        """Write the report; the checkpoints are not needed any more."""
        whole = {**report, "identity": self._identity}
        write_whole(self._out / REPORT, json.dumps(whole, indent=2) + "\n")
        self._lock.release()
        shutil.rmtree(self.folder)

    def _check_same(self, saved: dict[str, Any]) -> None:
        for name, value in self._identity.items():
            if saved.get(name) != value:
                raise ConfigError(
                    f"{self._out} was begun with {name}={saved.get(name)!r}, not {value!r}; resume "
                    "with the same data and settings, or pass another out"
                )


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file, the empty one where it holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_json(path: Path) -> bool:
    return bool(_read_object(path))
