"""A collection made anew under another recipe, and its name given over when that is complete."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from lmk_integrations.encoder import DocumentEncoder
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.sources import ReadOptions
from lmk_integrations.qdrant.aliases import (
    aliases,
    collections,
    note_replaced,
    point,
    replaced_by,
    resolve,
    take_name,
)
from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.index import LandmarkIndex
from lmk_integrations.qdrant.rebuild_check import Check, Given, open_sink, own_identity
from lmk_integrations.qdrant.schema import (
    LANDMARK_DATATYPES,
    CollectionIdentity,
    LandmarkDatatype,
)

logger = logging.getLogger(__name__)

_RECIPE_DIGITS = 8


@dataclass(slots=True)
class RebuildReport:
    """What a rebuild did.

    name: what is searched. collection: what was filled. old: what the name stood for before, None
    where it was free; its present name, should it have been renamed. swapped: `name` stands for
    `collection` now. problems: why it does not. dropped: collections deleted; kept: collections
    that the name stood for before and that are still there. ingest: of the filling.
    """

    name: str
    collection: str
    old: str | None
    ingest: IngestReport
    swapped: bool = False
    problems: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped; the same call goes on."""
        return self.ingest.interrupted

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "collection": self.collection,
            "old": self.old,
            "swapped": self.swapped,
            "problems": list(self.problems),
            "dropped": list(self.dropped),
            "kept": list(self.kept),
            "ingest": self.ingest.to_dict(),
        }


def rebuild(
    client: StoreClient,
    name: str,
    encoder: DocumentEncoder,
    sources: Any,
    *,
    section_tokens: int | None = None,
    language: str | None = None,
    landmark_datatype: LandmarkDatatype | None = None,
    options: ReadOptions | None = None,
    prune: bool = False,
    drop_old: bool = False,
    allow_failures: bool = False,
    allow_missing: bool = False,
    on_progress: Callable[[IngestReport], None] | None = None,
    stop: threading.Event | None = None,
) -> RebuildReport:
    """Fill a new collection from the sources; let `name` stand for it once it is verified.

    The new collection is called `name`, two hyphens and 8 digits of the recipe (and the datatype
    of its landmarks, where that is turbo8), so that the same call resumes. `name` becomes an alias.
    Until the swap, which is one step, searches go to the old collection. An index opened before the
    swap notices it at its next search, and refuses where the model is another one.

    Verified means: each document given has its head, and as many sections as the head says, of
    this recipe; nothing failed (but for `allow_failures`); and every document and item of the old
    collection is in the new one (but for `allow_missing`, and with `prune` for those whose file is
    gone from the folders given).

    section_tokens: None keeps that of the old collection where the encoder's space is the same,
        else the encoder's default. language, landmark_datatype: None keeps it.
    drop_old: delete the old collection after the swap. On a server a plain collection called
        `name` cannot be renamed, and an alias cannot have its name: then it is deleted first, and
        for some milliseconds there is nothing of that name. Without it, the new collection is
        left complete beside it, and `problems` says so.

    Raises StoreError as `LandmarkIndex.ingest` does. What was stored is kept.
    """
    live = resolve(client, name)
    identity = None if live is None else own_identity(client, live)
    settings = _settings(identity, encoder, section_tokens, language, landmark_datatype)
    with LandmarkIndex(":memory:", name, encoder, **settings) as fresh:
        recipe = fresh.recipe
    datatype = settings["landmark_datatype"]
    in_place = (
        identity is not None
        and identity.recipe.get("id") == recipe
        and datatype in (None, identity.landmark_datatype)
    )
    target = live if in_place and live is not None else _name_of(name, recipe, datatype)
    index = LandmarkIndex(client, target, encoder, **settings)
    given = Given(sources, options)
    report = RebuildReport(
        name,
        target,
        None if in_place else live,
        index.ingest(given.items(), on_progress=on_progress, stop=stop),
    )
    if report.interrupted:
        return report
    if prune or not in_place:  # in a new collection nothing is wanted but what is there now
        report.ingest.pruned_ids = given.prune(open_sink(client, target))
    check = Check(client, target, report.old, given, report.ingest, recipe)
    report.problems += check.failures(allow=allow_failures)
    report.problems += check.stored(allow=allow_failures)
    if not allow_missing:
        report.problems += check.missing(allow_failures=allow_failures, prune=prune)
    if not report.problems and not in_place:
        _swap(client, report, drop_old=drop_old)
    if not report.problems:
        _old_ones(client, report, drop_old=drop_old)
    return report


def _settings(
    old: CollectionIdentity | None,
    encoder: DocumentEncoder,
    section_tokens: int | None,
    language: str | None,
    datatype: LandmarkDatatype | None,
) -> dict[str, Any]:
    if old is not None:
        language = language or old.bm25.get("language")
        if section_tokens is None and dict(old.space) == encoder.space_parts.to_dict():
            section_tokens = int(old.recipe["section_tokens"])
        if old.landmarks and encoder.has_landmarks:
            datatype = datatype or cast(LandmarkDatatype, old.landmark_datatype)
    return {
        "section_tokens": section_tokens,
        "language": language,
        "landmark_datatype": datatype,
    }


def _swap(client: StoreClient, report: RebuildReport, *, drop_old: bool) -> None:
    """Give the name to the new collection."""
    name, new, old = report.name, report.collection, report.old
    if old is not None and old != name:  # the name is an alias already
        note_replaced(client, new, old)
        point(client, name, new)
    elif old is None:
        point(client, name, new)
    elif isinstance(client, EdgeClient):
        kept = _free_name(client, name, old)
        note_replaced(client, new, kept)
        take_name(client, name, kept, new)
        report.old = kept
    elif drop_old:
        # A server cannot rename, and refuses an alias that is called like a collection.
        call(client, lambda: client.delete_collection(name))
        report.dropped.append(name)
        point(client, name, new)
    else:
        report.problems.append(
            f"{new!r} is complete and can be searched, but {name!r} is a collection, whose name "
            "a Qdrant server gives to no alias. Run again with drop_old (--drop-old): it is "
            f"deleted then and {name!r} becomes an alias; for some milliseconds there is neither"
        )
        return
    report.swapped = True
    logger.info("%s stands for %s now", name, new)


def _name_of(name: str, recipe: str, datatype: str | None) -> str:
    """What a collection of a recipe is called. None, too, is the default datatype."""
    suffix = "" if datatype in (None, LANDMARK_DATATYPES[0]) else f"-{datatype}"
    return f"{name}--{recipe[:_RECIPE_DIGITS]}{suffix}"


def _free_name(client: StoreClient, name: str, old: str) -> str:
    identity = own_identity(client, old)
    taken = collections(client) | aliases(client).keys()
    recipe = str(identity.recipe.get("id") or "old")
    wanted = _name_of(name, recipe, identity.landmark_datatype)
    number, free = 1, wanted
    while free in taken:
        number += 1
        free = f"{wanted}-{number}"
    return free


def _old_ones(client: StoreClient, report: RebuildReport, *, drop_old: bool) -> None:
    """Delete, or name, those that the name stood for before. A run that was killed in between
    left its old collection: the new one knows it.
    """
    there, named = collections(client), set(aliases(client).values())
    seen = {report.collection}
    old = replaced_by(client, report.collection)
    while old is not None and old not in seen and old in there:
        seen.add(old)
        before = replaced_by(client, old)
        if drop_old and old not in named:
            call(client, lambda old=old: client.delete_collection(old))  # type: ignore[misc]
            report.dropped.append(old)
        else:
            report.kept.append(old)
        old = before
