"""Texts and documents of LangChain into an index, whether they come as lists or generators."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from langchain_core.documents import Document as LangChainDocument

from lmk_integrations._adapters import Cancelled
from lmk_integrations.encoder import EncodingCancelled
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.ingest.metadata import json_metadata
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.qdrant import LandmarkIndex
from lmk_integrations.records import Document

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

_AT_ONCE = 512  # texts held in memory
_SHOWN = 5  # failures in a message
_NAMESPACE = uuid.UUID("0d3c7c57-5d7b-5d38-9d3f-6c3a5a1b8e42")


@dataclass(frozen=True, slots=True)
class Text:
    """One text to store, as it was given. id: None where it has none."""

    text: str
    metadata: Mapping[str, Any]
    id: str | None

    @property
    def name(self) -> str:
        """Its id; without one a UUID that follows from text and metadata, source included."""
        if self.id:
            return self.id
        try:
            facts, _ = json_metadata(self.metadata)
        except DocumentError:
            facts = {}  # it will be refused when it is to be stored
        content = json.dumps([self.text, facts], sort_keys=True, default=repr)
        return str(uuid.uuid5(_NAMESPACE, content))


def of_texts(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, Any] | None] | None,
    ids: Iterable[str | None] | None,
) -> Iterator[Text]:
    """Texts with their metadata and ids. Raises ConfigError where one has more than the other."""
    if isinstance(texts, str):
        raise ConfigError("texts is a string; give a list, with this text in it")
    given, named = _listed(texts, "metadatas", metadatas), _listed(texts, "ids", ids)
    count = 0
    for text in texts:
        metadata, name = _at(given, "metadatas", count), _at(named, "ids", count)
        yield Text(text, metadata or {}, _id(name))
        count += 1
    _check_count(given, "metadatas", count)
    _check_count(named, "ids", count)


def of_documents(
    documents: Iterable[LangChainDocument], ids: Iterable[str | None] | None
) -> Iterator[Text]:
    """Documents with their own ids, or with those given beside them."""
    named = _listed(documents, "ids", ids)
    count = 0
    for document in documents:
        if not isinstance(document, LangChainDocument):
            raise ConfigError(
                f"documents[{count}] is a {type(document).__name__}; give LangChain Documents, or "
                "texts to add_texts"
            )
        name = _id(_at(named, "ids", count)) or document.id
        yield Text(document.page_content, document.metadata, name)
        count += 1
    _check_count(named, "ids", count)


def add(
    index: LandmarkIndex, texts: Iterable[Text], cancelled: Cancelled | None = None
) -> list[str]:
    """Store texts, one document each, and return the id of each, in order.

    A text of a known id takes the stored one's place; where nothing has changed, nothing is
    encoded. A blank text, as empty pages are, has nothing to be found by: what is stored under its
    id is deleted. Raises DocumentError naming the texts that cannot be stored, once all others are;
    EncodingCancelled when ``cancelled()`` turned True, which keeps what is stored until then.
    """
    names: list[str] = []
    failures: list[tuple[str, str]] = []
    source = iter(texts)
    while batch := list(islice(source, _AT_ONCE)):
        named = {text.name: text for text in batch}  # of two with one id the later counts
        positions = {text.name: len(names) + i for i, text in enumerate(batch)}
        report = _ingest(index, named, cancelled)
        if report.skipped:
            logger.warning("%d blank texts are not stored", len(report.skipped))
            index.delete([failure.name for failure in report.skipped])
        for failure in report.failed:
            place = f"text {positions.get(failure.name, '?')} (id {failure.name!r})"
            failures.append((failure.reason, f"{place}: {failure.message}"))
        names += [text.name for text in batch]
    if failures:
        shown = [message for _, message in failures[:_SHOWN]]
        more = [f"and {len(failures) - _SHOWN} more"] if len(failures) > _SHOWN else []
        raise DocumentError(
            f"{len(failures)} of {len(names)} texts could not be stored, the others are: "
            + "; ".join([*shown, *more]),
            failures[0][0],
        )
    return names


def _ingest(
    index: LandmarkIndex, named: Mapping[str, Text], cancelled: Cancelled | None
) -> IngestReport:
    stop = threading.Event()

    def watch(_: IngestReport) -> None:
        if cancelled is not None and cancelled():
            stop.set()

    report = index.ingest(
        [Document(text.text, id=name, metadata=text.metadata) for name, text in named.items()],
        on_progress=watch,
        stop=stop,
    )
    if report.interrupted:
        raise EncodingCancelled("adding was cancelled; what is stored until then stays")
    return report


def _listed(
    items: Iterable[Any], name: str, values: Iterable[Value] | None
) -> Sequence[Value] | None:
    if values is None:
        return None
    if isinstance(values, str):
        raise ConfigError(f"{name}={values!r} must be a list")
    found = list(values)
    if isinstance(items, Sized):
        _check_count(found, name, len(items))
    return found


def _at(values: Sequence[Value] | None, name: str, position: int) -> Value | None:
    if values is None:
        return None
    if position >= len(values):
        raise ConfigError(f"there are more texts than the {len(values)} {name}")
    return values[position]


def _check_count(values: Sequence[Any] | None, name: str, count: int) -> None:
    if values is not None and len(values) != count:
        raise ConfigError(f"{len(values)} {name} for {count} texts: give one for each")


def _id(given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"the id {given!r} is a {type(given).__name__}; ids are strings")
    return given
