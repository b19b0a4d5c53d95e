"""The plain text that an adaptation reads: any files, tokenised once, and pieces drawn from it."""

from __future__ import annotations

import hashlib
import lzma
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.landmarks import token_boundaries
from lmk_integrations.encoder.tokens import Tokenizer, iter_pieces
from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.sources import Sources
from lmk_integrations.records import Document

Ints = NDArray[np.int64]
Small = NDArray[np.int32]

SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n\s*\n\s*")
"""Roughly what stands between two sentences, or two paragraphs."""
_PAGE = re.compile(r"^\f\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Token ids of all documents, one after the other.

    ids: (n_tokens,); starts: (n_starts,) ascending tokens at which a sentence or paragraph
    begins; stops: (n_starts,) where its document ends. failed: files that could not be read.
    """

    ids: Small
    starts: Ints
    stops: Ints
    documents: int
    characters: int
    failed: tuple[str, ...]
    digest: str


def read_corpus(
    folder: str | Path,
    tokenizer: Tokenizer,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Corpus:
    """Read all files below a folder (or one file) that an ingest can read, and .xz packed text.

    A line that holds a form feed alone separates documents. Raises DocumentError where nothing
    can be read. on_progress: called with (documents, tokens) so far.
    """
    parts: list[Small] = []
    starts: list[Ints] = []
    stops: list[Ints] = []
    failed: list[str] = []
    digest = hashlib.sha256()
    total = documents = characters = 0
    for text in iter_texts(Path(folder), failed):
        ids, units = _tokens(text, tokenizer)
        if len(ids) == 0:
            continue
        digest.update(ids.tobytes())
        parts.append(ids)
        starts.append(units + total)
        total += len(ids)
        stops.append(np.full(len(units), total, np.int64))
        documents += 1
        characters += len(text)
        if on_progress is not None:
            on_progress(documents, total)
    if not parts:
        reason = f" ({failed[0]})" if failed else ""
        raise DocumentError(f"{folder} holds no text to train on{reason}", "training_data")
    return Corpus(
        np.concatenate(parts),
        np.concatenate(starts),
        np.concatenate(stops),
        documents,
        characters,
        tuple(failed),
        digest.hexdigest()[:16],
    )


def _tokens(text: str, tokenizer: Tokenizer) -> tuple[Small, Ints]:
    """The token ids of a document, and the tokens at which its sentences begin."""
    ids: list[Small] = []
    units: list[Ints] = []
    total = 0
    for piece in iter_pieces(text):
        tokens = tokenizer.encode(piece)
        begins = token_boundaries(tokens.offsets)[:-1]
        at = np.array([0, *(match.end() for match in SENTENCE_END.finditer(piece))], np.int64)
        first = np.unique(np.searchsorted(begins, at))
        units.append(first[first < len(begins)] + total)
        ids.append(tokens.ids.astype(np.int32))
        total += len(ids[-1])
    return np.concatenate(ids), np.concatenate(units)


def iter_texts(folder: Path, failed: list[str]) -> Iterator[str]:
    """The documents below a folder, as `read_corpus` reads them; adds failures to ``failed``."""
    if folder.is_file() and folder.suffix != ".xz":
        yield from _plain([folder], failed)
        return
    packed = [folder] if folder.is_file() else sorted(folder.rglob("*.xz"))
    for path in packed:
        try:
            with lzma.open(path, "rt", encoding="utf-8") as file:
                text = file.read()
        except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
            failed.append(f"{path.name}: {error}")
        else:
            yield from _split(text)
    if folder.is_dir():
        yield from _plain(folder, failed)


def _plain(source: object, failed: list[str]) -> Iterator[str]:
    for item in Sources(source).documents():
        if isinstance(item, Document):
            text = item.text if isinstance(item.text, str) else "".join(iter_pieces(item.text))
            yield from _split(text)
        elif not item.skipped and not item.name.endswith(".xz"):
            failed.append(f"{item.name}: {item.message}")


def _split(text: str) -> Iterator[str]:
    for part in _PAGE.split(text):
        if part.strip():
            yield part
