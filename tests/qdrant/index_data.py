"""A small library: documents on different things, some long, one in many scripts."""

from __future__ import annotations

import random

from lmk_integrations import Document, Mark

_SUBJECTS = {
    "lighthouse": (
        "The keeper climbed the lighthouse stairs every evening to light the lamp.",
        "Ships far out at sea steered by its beam when the fog came in.",
        "In winter the waves broke over the gallery and salt covered the glass.",
        "A second keeper arrived in spring with oil, bread and old newspapers.",
    ),
    "bread": (
        "Knead the dough until it is smooth and let it rise near the oven.",
        "Rye flour needs a sourdough, which is fed with water every day.",
        "The crust turns brown when the loaf is baked in a hot stone oven.",
        "A baker begins at three in the morning so that rolls are warm at six.",
    ),
    "volcano": (
        "Magma rises through the crust and gathers in a chamber under the volcano.",
        "The eruption threw ash ten miles high and darkened the sky for days.",
        "Lava flows are slow, but a cloud of hot gas outruns any horse.",
        "Geologists measure tiny earthquakes to tell when the mountain will wake.",
    ),
    "chess": (
        "White opens with the pawn in front of the king and fights for the centre.",
        "A bishop on a long diagonal is worth more than a knight on the rim.",
        "She sacrificed her queen and gave mate three moves later.",
        "Endgames with rooks are drawn more often than beginners believe.",
    ),
}

SCRIPTS = (
    "# Caf\u00e9 \U0001f9d1\u200d\U0001f680\r\n\r\n"
    "The na\u00efve astronaut \U0001f9d1\u200d\U0001f680 read a r\u00e9sum\u00e9.\r\n\r\n"
    "\u5bcc\u58eb\u5c71\u306f\u65e5\u672c\u4e00\u9ad8\u3044\u5c71\u3067\u3059\u3002"
    "\u51ac\u306f\u96ea\u304c\u7a4d\u3082\u308a\u307e\u3059\u3002\r\n\r\n"
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645\u060c "
    "\u0643\u064a\u0641 \u062d\u0627\u0644\u0643\u061f\r\n\r\n"
    "e\u0301 and \u00e9 look alike; a literal [SEP] and [CLS] stay text.\t\n   The end."
)


def prose(subject: str, seed: int, sentences: int) -> str:
    """Sentences on one subject; a paragraph every four, with some white space around."""
    rng = random.Random(seed)
    parts = []
    for number in range(sentences):
        sentence = rng.choice(_SUBJECTS[subject])
        parts.append(f"In chapter {seed * 100 + number}: {sentence}")
        parts.append("\n\n" if number % 4 == 3 else "  ")
    return "  \n" + "".join(parts)


def library() -> list[Document]:
    """Fourteen documents; `long` alone has more sections than all others."""
    documents = [
        Document(
            prose(subject, seed, 12),
            id=f"{subject}/{seed}",
            title=f"On the {subject}, part {seed}",
            source=f"{subject}.txt",
            metadata={"subject": subject, "year": 1990 + seed, "tags": [subject, f"t{seed}"]},
            marks=(Mark(0, "page", str(seed)),),
        )
        for subject in _SUBJECTS
        for seed in range(1, 4)
    ]
    documents.append(
        Document(prose("lighthouse", 9, 90), id="long", metadata={"year": 2020.0, "deep": {"a": 1}})
    )
    documents.append(Document(SCRIPTS, id="scripts", markup="markdown", metadata={"my key": "x"}))
    return documents


LIBRARY = {document.id: document for document in library()}
QUERIES = [
    "Who lights the lamp in the lighthouse?",
    "How is rye bread made with sourdough?",
    "hot ash cloud from a volcano eruption",
    "queen sacrifice",
    "\u5bcc\u58eb\u5c71",
]
