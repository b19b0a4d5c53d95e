"""The open store: its lock, its manifest, and one engine shard per collection."""

from __future__ import annotations

import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import ConfigError, StoreError
from lmk_integrations.qdrant.edge.collection import EdgeCollection
from lmk_integrations.qdrant.edge.engine import engine_call
from lmk_integrations.qdrant.edge.lock import HOLDER_NAME, LOCK_NAME, StoreLock
from lmk_integrations.qdrant.edge.manifest import (
    CREATING,
    DELETING,
    MANIFEST_NAME,
    READY,
    CollectionEntry,
    Manifest,
    load_manifest,
    save_manifest,
)
from lmk_integrations.qdrant.edge.space import check_space

_COLLECTIONS = "collections"
# Files that may lie in a directory before a store is made in it.
_HARMLESS = {LOCK_NAME, HOLDER_NAME, _COLLECTIONS, ".gitignore", ".DS_Store", "lost+found"}


class EdgeStore:
    """A store directory opened by this process. Every EdgeClient on it shares this object."""

    def __init__(self, directory: Path, wait_s: float) -> None:
        self.directory = directory
        self._pid = os.getpid()
        self.users = 0
        self.closed = False
        self._mutex = threading.RLock()
        self._open: dict[str, EdgeCollection] = {}
        self._lock = StoreLock(directory)
        self._lock.acquire(wait_s)
        try:
            self._manifest = self._load()
            self._finish_interrupted()
        except BaseException:
            self._lock.release()
            raise

    # -- lifetime

    def close(self) -> None:
        """Flush and close every shard, then let go of the directory. Idempotent."""
        with self._mutex:
            # A forked child must leave the parent's shards and lock alone.
            if self.closed or os.getpid() != self._pid:
                return
            self.closed = True
            opened = list(self._open.values())
            self._open.clear()
        # Not while the mutex is held: who writes to a collection may need it to come to an end.
        try:
            for collection in opened:
                collection.close()
        finally:
            self._lock.release()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"The store {self.directory} was opened by process {self._pid}, which forked. "
                "Open it after the fork, in one process only."
            )
        if self.closed:
            raise StoreError(f"The store {self.directory} is closed. Open it again.")

    # -- reading the manifest

    @property
    def manifest(self) -> Manifest:
        """The current manifest; an immutable snapshot."""
        self._check()
        return self._manifest

    def resolve(self, name: str) -> str:
        """The collection that `name` stands for: itself, or what the alias points to."""
        return self.manifest.aliases.get(name, name)

    def collection(self, name: str) -> EdgeCollection:
        """The open collection called `name`, or aliased by it.

        Raises StoreError when there is none, or when its shard cannot be opened.
        """
        with self._mutex:
            manifest = self.manifest
            real = manifest.aliases.get(name, name)
            entry = manifest.collections.get(real)
            if entry is None:
                known = ", ".join(repr(known) for known in sorted(manifest.collections)) or "none"
                raise StoreError(
                    f"The store {self.directory} has no collection {name!r} (it has {known})."
                )
            if real not in self._open:
                self._open[real] = self._load_collection(real, entry)
            return self._open[real]

    # -- changing the manifest

    def change(self, update: Callable[[Manifest], Manifest]) -> None:
        """Apply `update` to the manifest and make the result durable before it is used."""
        with self._mutex:
            changed = update(self.manifest)
            self._save(changed)
            self._manifest = changed

    def change_entry(self, name: str, **changes: Any) -> None:
        """Replace fields of one collection's entry."""
        self.change(
            lambda manifest: manifest.with_collection(
                name, replace(manifest.collections[name], **changes)
            )
        )

    def change_metadata(self, name: str, given: dict[str, Any]) -> None:
        """Lay `given` over the metadata of one collection."""
        with self._mutex:
            metadata = self.manifest.collections[name].metadata or {}
            self.change_entry(name, metadata={**metadata, **given})

    def create(self, name: str, entry: CollectionEntry, config: qe.EdgeConfig) -> None:
        """Create the shard of a new collection. `entry.directory` and its state are set here."""
        with self._mutex:
            manifest = self.manifest
            if name in manifest.collections:
                raise StoreError(f"Collection {name!r} already exists in {self.directory}.")
            if name in manifest.aliases:
                raise StoreError(f"{name!r} already exists in {self.directory}, as an alias.")
            slug = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:40].strip(".") or "collection"
            directory = f"{_COLLECTIONS}/{slug}-{uuid.uuid4().hex[:12]}"
            check_space(self.directory, 0)
            made = replace(entry, directory=directory, state=CREATING)
            self.change(lambda current: current.with_collection(name, made))
            try:
                path = self.directory / directory
                path.mkdir(parents=True)
                with engine_call(f"Creating collection {name!r}"):
                    shard = qe.EdgeShard.create(str(path), config)
                self._open[name] = self._wrap(name, made, shard)
                self.change_entry(name, state=READY)
            except BaseException:
                self.delete(name)
                raise

    def rename(self, name: str, new_name: str, update: Callable[[Manifest], Manifest]) -> None:
        """Give a collection another name; its aliases follow. Nothing on disk moves.

        update: a further change of the manifest, in the same step. It may raise to refuse both.
        """
        with self._mutex:
            manifest = self.manifest
            if name not in manifest.collections:
                raise StoreError(f"The store {self.directory} has no collection {name!r}.")
            if new_name in manifest.collections:
                raise StoreError(f"Collection {new_name!r} already exists in {self.directory}.")
            if new_name in manifest.aliases:
                raise StoreError(f"{new_name!r} already exists in {self.directory}, as an alias.")
            self.change(lambda current: update(current.with_name(name, new_name)))
            opened = self._open.pop(name, None)
            if opened is not None:
                opened.name = new_name  # who reads from it just now goes on
                self._open[new_name] = opened

    def delete(self, name: str) -> bool:
        """Remove a collection, its data and its aliases. False when there is none."""
        with self._mutex:
            entry = self.manifest.collections.get(name)
            if entry is None:
                return False
            self.change_entry(name, state=DELETING)
            opened = self._open.pop(name, None)
        if opened is not None:  # not while the mutex is held, see `close`
            opened.close()
        with self._mutex:
            self._remove(name, entry)
            return True

    # -- upkeep

    def optimize_apart(self, name: str, *, only_if_worth_it: bool = False) -> bool:
        """Optimize a collection in a child process; see `EdgeCollection.optimize_apart`."""
        collection = self.collection(name)
        if only_if_worth_it and not collection.is_worth_optimizing:
            return False
        entry = self.manifest.collections[collection.name]
        return collection.optimize_apart(self.directory / entry.directory)

    def backup(self, target: Path) -> None:
        """Copy the whole store to a new directory while it is open; writers wait meanwhile.

        The copy appears when it is complete. Raises StoreError where the target exists.
        """
        if target.exists():
            raise StoreError(f"{target} exists already. Back up to a new directory.")
        if target.resolve().is_relative_to(self.directory):
            raise StoreError(f"{target} is in the store itself. Back up to another directory.")
        while not self._copied(target):
            pass  # a collection was opened meanwhile

    def _copied(self, target: Path) -> bool:
        with ExitStack() as still:
            with self._mutex:
                self._check()
                opened = list(self._open.values())
            for collection in opened:
                still.enter_context(collection.still())
            still.enter_context(self._mutex)
            self._check()
            if not all(collection in opened for collection in self._open.values()):
                return False
            unfinished = target.with_name(f"{target.name}.unfinished-{uuid.uuid4().hex[:8]}")
            try:
                ignored = shutil.ignore_patterns(LOCK_NAME, HOLDER_NAME)
                shutil.copytree(self.directory, unfinished, ignore=ignored)
                unfinished.rename(target)
            except OSError as error:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise StoreError(f"{self.directory} cannot be copied to {target}: {error}") from (
                    error
                )
            return True

    # -- internals

    def _load(self) -> Manifest:
        manifest = load_manifest(self.directory)
        if manifest is not None:
            return manifest
        if (self.directory / _COLLECTIONS).exists():
            raise StoreError(
                f"{self.directory} holds collections but no {MANIFEST_NAME}. Restore that file "
                "from a backup, or choose another directory."
            )
        foreign = sorted(set(os.listdir(self.directory)) - _HARMLESS)
        if foreign:
            raise ConfigError(
                f"{self.directory} is not a store and not empty (it holds {foreign[0]!r}). "
                "Choose a new directory for the store."
            )
        manifest = Manifest()
        self._save(manifest)
        return manifest

    def _save(self, manifest: Manifest) -> None:
        try:
            save_manifest(self.directory, manifest)
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(f"{self.directory / MANIFEST_NAME} cannot be written: {error}") from (
                error
            )

    def _finish_interrupted(self) -> None:
        for name, entry in self._manifest.collections.items():
            if entry.state != READY:
                self._remove(name, entry)

    def _remove(self, name: str, entry: CollectionEntry) -> None:
        path = (self.directory / entry.directory).resolve()
        # The path comes from a file: never follow it out of the store.
        if path.parent != (self.directory / _COLLECTIONS).resolve():
            raise StoreError(f"Collection {name!r} has the directory {path}, outside the store.")
        try:
            if path.exists():
                shutil.rmtree(path)
        except OSError as error:
            raise StoreError(f"Collection {name!r} cannot be removed: {error}") from error
        self.change(lambda manifest: manifest.without_collection(name))

    def _load_collection(self, name: str, entry: CollectionEntry) -> EdgeCollection:
        path = self.directory / entry.directory
        remedy = (
            f"Its write-ahead log may be damaged: restore {path} from a backup, or move "
            f"{path / 'wal'} away to open it without the writes since the last flush."
        )
        with engine_call(f"Opening collection {name!r}", remedy):
            return self._wrap(name, entry, qe.EdgeShard.load(str(path)))

    def _wrap(self, name: str, entry: CollectionEntry, shard: qe.EdgeShard) -> EdgeCollection:
        params = models.CollectionParams.model_validate(entry.params)
        collection = EdgeCollection(
            name,
            params,
            shard,
            stale_statistics=entry.stale_statistics,
            on_stale=lambda: self._note_stale(collection),
            before_write=lambda n_bytes: check_space(self.directory, n_bytes),
        )
        return collection

    def _note_stale(self, collection: EdgeCollection) -> None:
        with self._mutex:  # so that it keeps its name meanwhile
            self.change_entry(collection.name, stale_statistics=True)


# Open stores of this process by real path. A second client on the same directory, as when a
# notebook cell runs again, shares the store: the engine could not open it twice.
_stores: dict[str, EdgeStore] = {}
# Re-entrant: a client collected as garbage releases its share in whatever thread runs just then.
_stores_mutex = threading.RLock()


def open_store(directory: Path, wait_s: float) -> EdgeStore:
    """The store at `directory`, opened now or shared with the other clients of this process.

    Every call needs one `release_store`.

    Raises ConfigError where the directory cannot hold a store, StoreLockedError where another
    process has it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used as a store directory: {error}") from error
    key = os.path.realpath(directory)
    with _stores_mutex:
        while True:
            store = _stores.get(key)
            if store is None:
                store = _stores[key] = EdgeStore(Path(key), wait_s)
            store.users += 1
            if not store.closed:
                return store


def release_store(store: EdgeStore) -> None:
    """End one client's share; the last one closes the store."""
    with _stores_mutex:
        store.users -= 1
        if store.users > 0:
            return
        key = str(store.directory)
        if _stores.get(key) is store:
            del _stores[key]
        store.close()


def _forget_after_fork() -> None:
    """A forked child must not take the parent's open shards for its own."""
    global _stores_mutex
    _stores_mutex = threading.RLock()
    _stores.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
