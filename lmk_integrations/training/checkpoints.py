"""The output directory of a training: what was begun there, and where to go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from lmk_integrations.encoder.model_files import LMK_CONFIG
from lmk_integrations.errors import ConfigError

REPORT = "training.json"
_SETTINGS = "settings.json"


class Checkpoints:
    """The checkpoints below an output directory, and the identity of the training they are of.

    identity: what must be the same for a training to be resumed, as JSON values.
    """

    def __init__(self, out: Path, identity: dict[str, Any]) -> None:
        self._out = out
        self._identity = identity
        self.folder = out / "checkpoints"

    def finished(self, *, resume: bool) -> dict[str, Any] | None:
        """The report of a training that is there whole; ConfigError where it is another."""
        if not (self._out / REPORT).is_file():
            if (self._out / LMK_CONFIG).exists() and not self.folder.exists():
                raise ConfigError(f"{self._out} holds a model already; pass another out")
            return None
        if not resume:
            raise ConfigError(f"{self._out} holds a finished training; pass another out")
        saved: dict[str, Any] = json.loads((self._out / REPORT).read_text(encoding="utf-8"))
        self._check_same(saved.pop("identity"))
        return saved

    def begin(self, *, resume: bool) -> Path | None:
        """Prepare the folder; the newest whole checkpoint, if there is one to resume from."""
        noted = self.folder / _SETTINGS
        if noted.is_file():
            if not resume:
                raise ConfigError(
                    f"{self.folder} holds a training that was cut short; resume it, or delete it"
                )
            self._check_same(json.loads(noted.read_text(encoding="utf-8")))
        self.folder.mkdir(parents=True, exist_ok=True)
        noted.write_text(json.dumps(self._identity, indent=2) + "\n", encoding="utf-8")
        # trainer_state.json is what the trainer writes last.
        whole = [path.parent for path in self.folder.glob("checkpoint-*/trainer_state.json")]
        return max(whole, key=lambda path: int(path.name.rsplit("-", 1)[1]), default=None)

    def finish(self, report: dict[str, Any]) -> None:
        """Write the report; the checkpoints are not needed any more."""
        whole = {**report, "identity": self._identity}
        (self._out / REPORT).write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(self.folder)

    def _check_same(self, saved: dict[str, Any]) -> None:
        for name, value in self._identity.items():
            if saved.get(name) != value:
                raise ConfigError(
                    f"{self._out} was begun with {name}={saved.get(name)!r}, not {value!r}; resume "
                    "with the same data and settings, or pass another out"
                )
