"""A passage is cited by where it stands, not by where its section began."""

from typing import Any

from lmk_integrations import Document, LandmarkIndex, LMKEncoder, Mark


def test_a_passage_names_its_own_page_and_heading(store: Any, encoder: LMKEncoder) -> None:
    """One section over three pages: the hit begins on the first, its passage is on the third."""
    pages = [
        "The harbour was rebuilt in stone after the great storm. " * 6,
        "Bread was baked twice a day in the ovens of the lower town. " * 6,
        "The astronomer counted seven moons around the planet. " * 6,
    ]
    starts = [0, len(pages[0]), len(pages[0]) + len(pages[1])]
    marks = [Mark(at, "page", str(n + 1)) for n, at in enumerate(starts)]
    marks += [Mark(0, "heading", "Harbour"), Mark(starts[2], "heading", "Sky")]
    marks.sort(key=lambda mark: mark.start)
    document = Document("".join(pages), id="town", marks=tuple(marks))
    index = LandmarkIndex(store, "town", encoder)
    index.ingest([document])
    [hit] = index.search("how many moons were seen?", 1)
    assert index.count("town") == 1
    assert (hit.page, hit.heading) == ("1", "Harbour")
    assert (hit.passage.page, hit.passage.heading) == ("3", "Sky")
    assert "moons" in hit.passage.text
    assert hit.to_dict()["passage"]["page"] == "3"
