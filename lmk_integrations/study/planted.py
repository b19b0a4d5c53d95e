"""Documents with one fact at a known depth: passkeys in noise, needles in prose.

After the passkey task of Mohtashami and Jaggi (arXiv 2305.16300) and LongEmbed (arXiv 2404.12096);
the sentences, the names and the code are our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lmk_integrations.encoder.tokens import Tokenizer

_NOISE = (
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
)
_FIRST = [
    "Ada",
    "Boris",
    "Clara",
    "Dmitri",
    "Elena",
    "Felix",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Karin",
    "Lucas",
    "Maria",
    "Nils",
    "Olga",
    "Peter",
    "Quentin",
    "Rosa",
    "Simon",
    "Tara",
    "Ulrich",
    "Vera",
    "Walter",
    "Xenia",
    "Yusuf",
    "Zoe",
    "Arthur",
    "Bella",
    "Conrad",
    "Diana",
]
_LAST = [
    "Abbott",
    "Becker",
    "Carson",
    "Dalton",
    "Ellis",
    "Foster",
    "Grant",
    "Harper",
    "Irving",
    "Jensen",
    "Keller",
    "Lambert",
    "Morris",
    "Norton",
    "Osborn",
    "Parker",
    "Quinn",
    "Ramsey",
    "Sutton",
    "Turner",
    "Upton",
    "Vaughn",
    "Warren",
    "York",
    "Zimmer",
    "Archer",
    "Benson",
    "Cooper",
    "Draper",
    "Elliot",
]
_THINGS = [
    "violin",
    "telescope",
    "passport",
    "camera",
    "diary",
    "lantern",
    "compass",
    "guitar",
    "typewriter",
    "clock",
    "mirror",
    "ring",
    "painting",
    "microscope",
    "sword",
    "helmet",
    "map",
    "globe",
    "piano",
    "umbrella",
]
_PLACES = [
    "attic",
    "cellar",
    "library",
    "garage",
    "kitchen",
    "greenhouse",
    "stable",
    "chapel",
    "workshop",
    "tower",
    "bakery",
    "harbour",
    "museum",
    "bank",
    "school",
    "barn",
    "theatre",
    "station",
    "hospital",
    "castle",
]
_CITIES = [
    "Lisbon",
    "Prague",
    "Dublin",
    "Oslo",
    "Vienna",
    "Warsaw",
    "Athens",
    "Madrid",
    "Berlin",
    "Rome",
    "Paris",
    "London",
    "Boston",
    "Chicago",
    "Toronto",
    "Sydney",
    "Tokyo",
    "Cairo",
    "Delhi",
    "Havana",
]
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+")


@dataclass(frozen=True, slots=True)
class PlantedSet:
    """texts[i] answers queries[i]; depths[i]: where in it the fact begins, 0 to 1, in tokens."""

    name: str
    texts: tuple[str, ...]
    queries: tuple[str, ...]
    depths: tuple[float, ...]


def passkeys(tokenizer: Tokenizer, n_tokens: int, count: int, seed: int) -> PlantedSet:
    """Each document gives another person's key; all else is the same noise, over and over."""
    rng = np.random.default_rng((seed, n_tokens, 1))
    facts, queries = [], []
    for person in _people(rng, count):
        key = int(rng.integers(10_000, 100_000))
        facts.append(f"The pass key for {person} is {key}. Remember it. {key} is the pass key. ")
        queries.append(f"What is the pass key for {person}?")
    noise = _NOISE * (n_tokens // 16 + 2)
    return _plant("passkey", tokenizer, [noise] * count, facts, queries, n_tokens)


def needles(tokenizer: Tokenizer, prose: str, n_tokens: int, count: int, seed: int) -> PlantedSet:
    """Each document hides one person's secret in another stretch of ``prose``."""
    rng = np.random.default_rng((seed, n_tokens, 2))
    facts, queries = [], []
    for person in _people(rng, count):
        thing, place, city = (str(rng.choice(words)) for words in (_THINGS, _PLACES, _CITIES))
        facts.append(f"{person} keeps the {thing} in the {place} of {city}. ")
        queries.append(f"Where does {person} keep the {thing}?")
    room = n_tokens * 8  # characters, more than so many tokens have
    doubled = prose + "\n\n" + prose
    while len(doubled) < len(prose) + room:
        doubled += prose
    starts = rng.integers(0, len(prose), size=count).tolist()
    stretches = [doubled[at : at + room] for at in starts]
    return _plant("needle", tokenizer, stretches, facts, queries, n_tokens)


def _people(rng: np.random.Generator, count: int) -> list[str]:
    """Different names, in no order."""
    if count > len(_FIRST) * len(_LAST):
        raise ValueError(f"there are {len(_FIRST) * len(_LAST)} names, not {count}")
    chosen = rng.permutation(len(_FIRST) * len(_LAST))[:count].tolist()
    return [f"{_FIRST[at % len(_FIRST)]} {_LAST[at // len(_FIRST)]}" for at in chosen]


def _plant(
    name: str,
    tokenizer: Tokenizer,
    stretches: list[str],
    facts: list[str],
    queries: list[str],
    n_tokens: int,
) -> PlantedSet:
    """Texts of at most ``n_tokens`` tokens, the facts at evenly spread depths."""
    texts, depths = [], []
    for number, (stretch, fact) in enumerate(zip(stretches, facts, strict=True)):
        room = n_tokens - len(tokenizer.encode(fact).ids)
        offsets = tokenizer.encode(stretch).offsets[:room]
        wanted = round((len(offsets) - 1) * number / max(1, len(facts) - 1))
        end = int(offsets[-1][1])
        at = _sentence_start(stretch, int(offsets[wanted][0]), end) if wanted else 0
        texts.append(f"{stretch[:at]}{fact}{stretch[at:end]}")
        before = int(np.searchsorted(offsets[:, 0], at))
        depths.append(before / max(1, len(offsets)))
    return PlantedSet(name, tuple(texts), tuple(queries), tuple(depths))


def _sentence_start(text: str, wanted: int, end: int) -> int:
    """Where a sentence begins at or before ``wanted``, or behind it, where there is none."""
    last = 0
    for match in _SENTENCE_END.finditer(text, 0, end):
        if match.end() > wanted:
            return last or match.end()
        last = match.end()
    return last
