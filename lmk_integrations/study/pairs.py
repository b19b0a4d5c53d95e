"""Queries and the passages that answer them, out of plain text: the inverse cloze task.

A sentence is the query, the passage around it its answer; from half of the passages the sentence
is taken out, so that matching words is not enough (Lee et al., arXiv 1906.00300). Sentences are
drawn from anywhere in their passage: what a pooling learns of positions is its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from lmk_integrations.errors import DocumentError
from lmk_integrations.training.corpus import SENTENCE_END
from lmk_integrations.training.data import Example, TrainingData

_WORDS = (6, 60)
_CHARACTERS_PER_TOKEN = 4.3
_FEWEST_SENTENCES = 3
_SHORTEST_TOKENS = 64
_KEPT = 0.5  # how often the passage keeps its query
_MOST_FAILURES = 1000  # in a row


def sentence_pairs(
    texts: Sequence[str], count: int, seed: int, *, text_tokens: int
) -> TrainingData:
    """So many examples from the texts; the same ones for the same texts and seed.

    text_tokens: about the most tokens of a passage. Longer texts are drawn from more often.
    Raises DocumentError where the texts hold no prose.
    """
    rng = np.random.default_rng(seed)
    ends = np.cumsum([len(text) for text in texts])
    examples: list[Example] = []
    failures = 0
    while len(examples) < count:
        at = int(rng.integers(ends[-1]))
        number = int(np.searchsorted(ends, at, side="right"))
        at -= int(ends[number] - len(texts[number]))
        low, high = np.log(min(_SHORTEST_TOKENS, text_tokens)), np.log(text_tokens)
        size = round(float(np.exp(rng.uniform(low, high))) * _CHARACTERS_PER_TOKEN)
        example = _example(texts[number][at : at + size], rng)
        if example is not None:
            examples.append(example)
            failures = 0
            continue
        failures += 1
        if failures > _MOST_FAILURES:
            raise DocumentError(
                "the text holds hardly any passage of several sentences; pass prose",
                "training_data",
            )
    where = tuple(f"example {number}" for number in range(1, count + 1))
    corpus = tuple(dict.fromkeys(example.positive for example in examples))
    return TrainingData("sentences and their passages", tuple(examples), where, corpus)


def _example(passage: str, rng: np.random.Generator) -> Example | None:
    """One pair, or None where the passage is no prose."""
    ends = [match.end() for match in SENTENCE_END.finditer(passage)]
    # Only whole ones: the first began before the passage, the last may end behind it.
    sentences = [passage[a:b] for a, b in itertools.pairwise(ends)]
    fitting = [
        place
        for place, sentence in enumerate(sentences)
        if _WORDS[0] <= len(sentence.split()) <= _WORDS[1]
    ]
    if len(sentences) < _FEWEST_SENTENCES or not fitting:
        return None
    place = int(rng.choice(fitting))
    query = " ".join(sentences[place].split())
    if rng.random() >= _KEPT:
        del sentences[place]
    positive = "".join(sentences).strip()
    if not positive or positive == query:
        return None
    return Example(query, positive)
