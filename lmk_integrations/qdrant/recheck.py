"""Searches by a name that may come to stand for another collection meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from lmk_integrations.errors import StoreUnreachableError
from lmk_integrations.qdrant.hits import SearchHit


def of_one_collection(
    ask: Callable[[], list[SearchHit]], known: Callable[[], set[str]], reread: Callable[[], bool]
) -> list[SearchHit]:
    """What `ask` finds; once more where another collection has come behind the name.

    A rebuild gives the name, an alias, to another collection. That shows in sections of a recipe
    that is not `known()`, or in an error; only then is anything read again, so it costs nothing.

    reread: reads what the index knows of its collection, and says whether that has changed; it
        may raise where the index cannot go on. known(): grows by what turned out to belong here.
    """
    try:
        hits = ask()
    except StoreUnreachableError:
        raise
    except Exception:
        if not reread():
            raise
        return ask()
    new = {hit.recipe for hit in hits if hit.recipe is not None} - known()
    if new:
        if reread():
            hits = ask()
        known().update(new)
    return hits
