"""What the engine does not keep: names, aliases, metadata and configuration of collections."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lmk_integrations.errors import StoreError

MANIFEST_NAME = "store.json"
FORMAT = "lmk-edge-store"
VERSION = 1

READY = "ready"
# An entry in one of these states is half made or half removed: a crash came between. Nothing in
# it was ever acknowledged to exist, so opening the store finishes the removal.
CREATING = "creating"
DELETING = "deleting"


@dataclass(frozen=True)
class CollectionEntry:
    """One collection as the manifest knows it.

    directory: folder of the shard, relative to the store.
    state: READY, CREATING or DELETING.
    params: the qdrant_client CollectionParams as JSON.
    config: hnsw, optimizer and quantization settings as JSON, where given.
    metadata: what the caller stored with the collection.
    stale_statistics: points with sparse vectors were deleted or replaced, so the engine's index
        statistics may count them still; IDF is then computed over the live points.
    """

    directory: str
    state: str
    params: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] | None = None
    stale_statistics: bool = False


@dataclass(frozen=True)
class Manifest:
    """Collections by name and aliases (alias -> collection)."""

    collections: dict[str, CollectionEntry] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def with_collection(self, name: str, entry: CollectionEntry) -> Manifest:
        """A copy that holds `entry` under `name`."""
        return replace(self, collections={**self.collections, name: entry})

    def with_name(self, name: str, new_name: str) -> Manifest:
        """A copy in which the collection `name` is called `new_name`; aliases of it follow."""
        return Manifest(
            collections={
                new_name if key == name else key: value for key, value in self.collections.items()
            },
            aliases={alias: new_name if to == name else to for alias, to in self.aliases.items()},
        )

    def without_collection(self, name: str) -> Manifest:
        """A copy that holds neither the collection `name` nor an alias of it."""
        return Manifest(
            collections={key: value for key, value in self.collections.items() if key != name},
            aliases={alias: to for alias, to in self.aliases.items() if to != name},
        )


def load_manifest(directory: Path) -> Manifest | None:
    """The manifest of `directory`, None where there is none.

    Raises StoreError for a manifest that cannot be read or that a newer version wrote.
    """
    path = directory / MANIFEST_NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}. Restore it from a backup.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise StoreError(f"{path} is not the manifest of a store of this package.")
    if data.get("version") != VERSION:
        raise StoreError(
            f"{path} has version {data.get('version')!r}, this release reads version {VERSION}. "
            "Upgrade lmk-integrations, or ingest into a new directory."
        )
    try:
        return Manifest(
            collections={
                name: CollectionEntry(**entry) for name, entry in data["collections"].items()
            },
            aliases=dict(data["aliases"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Restore it from a backup.") from error


def save_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: a crash leaves the old one or the new one, whole."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "collections": {name: asdict(entry) for name, entry in manifest.collections.items()},
        "aliases": manifest.aliases,
    }
    text = json.dumps(data, indent=1, sort_keys=True, allow_nan=False)
    handle, temporary = tempfile.mkstemp(prefix=MANIFEST_NAME + ".", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, directory / MANIFEST_NAME)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the system allows a directory to be synced."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
