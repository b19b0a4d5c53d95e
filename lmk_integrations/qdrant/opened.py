"""A collection as an index has it open: what it is, and what follows from that."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any

from lmk_integrations.core.sections import max_section_rows
from lmk_integrations.encoder import DocumentEncoder
from lmk_integrations.errors import ConfigError, SpaceMismatchError, StoreError
from lmk_integrations.ingest.empty import EmptySink
from lmk_integrations.ingest.ids import recipe_id
from lmk_integrations.ingest.sources import READER_VERSION
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.schema import (
    LANDMARK_DATATYPES,
    CollectionIdentity,
    LandmarkDatatype,
    check_space,
    complete_indexes,
    create_collection,
    read_identity,
    write_identity,
)
from lmk_integrations.qdrant.store import QdrantSink

logger = logging.getLogger(__name__)

DEFAULT_LANGUAGE = "english"
# A section has about 0.4 words that count (stop words gone) per token; BM25 wants to know.
_WORDS_PER_TOKEN = 0.4


class OpenCollection:
    """One collection by its name, or by an alias that may come to stand for another one.

    identity: None where it does not exist. recipes: of sections known to be in it; there are
        several after a change of granularity. section_tokens: of the sections it gets.
    The other arguments are those of `LandmarkIndex`, and so are the errors.
    """

    def __init__(
        self,
        client: StoreClient,
        name: str,
        encoder: DocumentEncoder | None,
        *,
        section_tokens: int | None,
        language: str | None,
        landmark_datatype: LandmarkDatatype | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._encoder = encoder
        self._section_tokens_asked = section_tokens
        self._language = language
        self._datatype = _checked_datatype(landmark_datatype, encoder)
        self._lock = threading.Lock()
        self.identity: CollectionIdentity | None = None
        self.recipes: set[str] = set()
        self.section_tokens = 0
        self._refresh()

    @property
    def exists(self) -> bool:
        """Whether the collection has been created, here or by someone else meanwhile."""
        if self.identity is None:
            self._refresh()
        return self.identity is not None

    @property
    def recipe(self) -> str:
        """Equal recipes store the same points for the same text (hex)."""
        encoder = self.needs_encoder("the recipe")
        bm25 = self.bm25().to_dict()
        return recipe_id(encoder.fingerprint, self.section_tokens, READER_VERSION, bm25)

    def _recipe_parts(self, encoder: DocumentEncoder) -> dict[str, Any]:
        return {
            **encoder.fingerprint_parts,
            "section_tokens": self.section_tokens,
            "reader": READER_VERSION,
            "id": self.recipe,
        }

    def _open(self) -> CollectionIdentity | None:
        if not call(self._client, lambda: self._client.collection_exists(self._name)):
            return None
        identity = read_identity(self._client, self._name)
        if identity is None:
            raise StoreError(
                f"collection {self._name!r} was not made by lmk-integrations: it has no "
                "landmark vectors. Ingest into a collection of another name"
            )
        if self._encoder is not None:
            space = self._encoder.space_parts.to_dict()
            check_space(self._name, identity, space, self._encoder.model_name)
        stored = identity.bm25.get("language")
        if self._language is not None and self._language != stored:
            raise ConfigError(
                f"collection {self._name!r} was created with language={stored!r}, which "
                f"cannot change to {self._language!r}; ingest into a new collection"
            )
        if self._datatype not in (None, identity.landmark_datatype):
            raise ConfigError(
                f"collection {self._name!r} stores landmarks as {identity.landmark_datatype}, "
                f"which cannot change to {self._datatype}; rebuild it (lmk ingest --rebuild), or "
                "ingest into a new collection"
            )
        return identity

    def _refresh(self) -> None:
        """Read the collection's identity, and settle what depends on it."""
        self._adopt(self._open())

    def _adopt(self, identity: CollectionIdentity | None) -> None:
        self.identity = identity
        # Recipes of sections known to be in it; there are several after a change of granularity.
        self.recipes = set() if identity is None else {str(identity.recipe.get("id"))}
        self.section_tokens = self._tokens(self._section_tokens_asked)

    def _tokens(self, asked: int | None) -> int:
        if asked is None and self.identity is not None:
            asked = int(self.identity.recipe["section_tokens"])
        if self._encoder is None:
            return asked or 0
        tokens = self._encoder.default_section_tokens if asked is None else asked
        most = self._encoder.max_section_tokens
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= most:
            raise ConfigError(
                f"section_tokens={tokens!r} must be a whole number from 1 to {most}: Qdrant "
                f"stores at most {max_section_rows(self._encoder.dim)} landmarks of "
                f"{self._encoder.dim} dimensions in one point"
            )
        return tokens

    def bm25(self) -> Bm25Encoder:
        """As the collection has it, or will have it."""
        if self.identity is not None:
            return Bm25Encoder.from_dict(dict(self.identity.bm25))
        length = max(1, round(self.section_tokens * _WORDS_PER_TOKEN))
        return Bm25Encoder(self._language or DEFAULT_LANGUAGE, avg_len=float(length))

    def sink(self) -> QdrantSink:
        """Where documents are written and looked up."""
        return QdrantSink(self._client, self._name, self.bm25())

    def ensure(self, encoder: DocumentEncoder, *, dry_run: bool) -> QdrantSink | EmptySink:
        """The sink; creates the collection, and notes a new recipe, unless this is a dry run."""
        with self._lock:
            self._refresh()  # others may have made it meanwhile, or deleted it
            parts = self._recipe_parts(encoder)
            if self.identity is None:
                if dry_run:
                    return EmptySink()
                identity = CollectionIdentity(
                    space=encoder.space_parts.to_dict(),
                    model=encoder.model_name,
                    recipe=parts,
                    bm25=self.bm25().to_dict(),
                    landmarks=encoder.has_landmarks,
                    landmark_datatype=self._datatype or LANDMARK_DATATYPES[0],
                )
                create_collection(self._client, self._name, identity)
                self.identity = identity
                return self.sink()
            if not dry_run:
                complete_indexes(self._client, self._name)
            if dict(self.identity.recipe) != parts and not dry_run:
                logger.info("collection %s: documents are stored under a new recipe", self._name)
                self.identity = replace(self.identity, recipe=parts)
                write_identity(self._client, self._name, self.identity)
        return self.sink()

    def needs_encoder(self, what: str) -> DocumentEncoder:
        """The encoder. Raises ConfigError, naming what cannot be done, where there is none."""
        if self._encoder is None:
            raise ConfigError(f"{what} needs an encoder: LandmarkIndex(client, name, LMKEncoder())")
        return self._encoder

    def reread(self, by_vector: bool) -> bool:
        """Read the identity again. Returns whether it has changed.

        Raises StoreError where the collection is gone, SpaceMismatchError where it has become one
        that the vectors of this index cannot be compared with.
        """
        before = self.identity
        self._refresh()
        after = self.identity
        if after is None:
            raise StoreError(f"there is no collection {self._name!r} any more")
        if by_vector and before is not None:
            try:
                check_space(self._name, after, before.space, before.model)
            except SpaceMismatchError:
                self._adopt(before)  # the next search must not pass
                raise
        return after != before


def _checked_datatype(
    asked: LandmarkDatatype | None, encoder: DocumentEncoder | None
) -> LandmarkDatatype | None:
    if asked is None:
        return None
    if asked not in LANDMARK_DATATYPES:
        known = ", ".join(map(repr, LANDMARK_DATATYPES))
        raise ConfigError(f"landmark_datatype={asked!r} must be one of {known}")
    if encoder is not None and not encoder.has_landmarks:
        raise ConfigError(
            f"landmark_datatype={asked!r}: {encoder.model_name!r} gives no landmarks; leave it out"
        )
    return asked
