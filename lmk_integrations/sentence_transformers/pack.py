"""Texts -> one row of numbers each, holding all the windows of a text one behind the other.

sentence-transformers slices, pads and merges batches along the first axis, which must be that of
the texts. So a text's windows share a row, each position knows its window, and the model's input
is cut out of the rows again just before it is run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder.plan import Layout, Planner, WindowPlan
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import DocumentError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch of texts, each array (n_texts, width) int64, zero past a text's end.

    ids: token ids. windows: the number of each position's window, from 1. weights: what the state
    at each position counts in the text's vector, mostly 0; positions carry it, for PAD may have
    the landmark's id.
    """

    ids: Ints
    windows: Ints
    weights: Ints

    @property
    def mask(self) -> Ints:
        """(n_texts, width): 1 where there is a token."""
        return (self.windows > 0).astype(np.int64)


def pack_texts(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    layout: Layout,
    *,
    granularities: Sequence[int | str] | None = None,
    most_tokens: int | None = None,
) -> Packed:
    """Lay out texts as the encoder does.

    granularities: one per text; None takes the layout's. most_tokens: read only the first so many
    tokens of a text; None reads all.
    Raises DocumentError, naming the text's index, where one is not valid Unicode text.
    """
    rows = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DocumentError(
                f"text {index} is a {type(text).__name__}, not a string", "not_text"
            )
        chosen = (
            layout if granularities is None else replace(layout, granularity=granularities[index])
        )
        try:
            cut = text if most_tokens is None else first_tokens(text, tokenizer, most_tokens)
            groups = Planner(tokenizer, chosen).plan(cut)
            rows.append(_row([window for group in groups for window in group.windows]))
        except DocumentError as error:
            raise DocumentError(f"text {index}: {error}", error.reason) from None
    width = max(len(row) for row in rows)
    packed = np.zeros((3, len(rows), width), np.int64)
    for index, row in enumerate(rows):
        packed[:, index, : len(row)] = row.T
    return Packed(packed[0], packed[1], packed[2])


def first_tokens(text: str, tokenizer: Tokenizer, most: int) -> str:
    """The beginning of a text that holds its first ``most`` tokens."""
    if len(text.encode("utf-8", "surrogatepass")) <= most:  # a token takes a byte at least
        return text
    offsets = tokenizer.encode(text).offsets
    return text if len(offsets) <= most else text[: int(offsets[most - 1, 1])]


def draw_granularities(texts: Sequence[str], choices: Sequence[int], seed: int) -> list[int]:
    """One granularity per text, as if at random, but a function of the batch's texts.

    So a training that is resumed draws what one that was never stopped would, however far ahead
    batches were prepared; and a text meets other granularities in other company.
    """
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    random = np.random.default_rng(int.from_bytes(digest.digest(), "little"))
    return [int(choice) for choice in random.choice(np.array(choices), len(texts))]


def _row(windows: Sequence[WindowPlan]) -> Ints:
    """(positions, 3): ids, window numbers, weights of the windows of one text."""
    parts = []
    for number, window in enumerate(windows, 1):
        weights = _position_weights(window)
        part = np.stack([window.input.ids, np.full_like(weights, number), weights], axis=1)
        parts.append(part)
    return np.concatenate(parts)


def _position_weights(window: WindowPlan) -> Ints:
    """What each position's state counts in the text's vector: whole numbers for every pooling."""
    rows, weights = window.rows, np.zeros(len(window.input.ids), np.int64)
    if rows.text_row is not None:  # one state stands for the window's tokens
        weights[rows.starts[rows.text_row]] = int(rows.weights.sum())
        return weights
    # Each row is the mean of its run of positions, weighted by the length of the run; or a
    # landmark, of length and weight 1.
    for start, stop in zip(rows.starts, rows.stops, strict=True):
        weights[start:stop] += 1
    return weights
