"""Where headings, paragraphs and sentences begin."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_integrations.text.structure import find_headings, find_structure, sentence_starts


def labels(text, markup):
    return [(text[mark.start :].split("\n")[0], mark.label) for mark in find_headings(text, markup)]


MARKDOWN = """# One #

Text with a # that is none.

```python
# a comment
```

   ## Two
####### seven is none
#none
~~~
# in a fence
```
# still in it
~~~
Set as title
============

Second one
---
- a list
---
```inline``` code
### Three
"""


def test_markdown_headings():
    """ATX and underlined titles; not in fences, which only their own kind closes."""
    assert labels(MARKDOWN, "markdown") == [
        ("# One #", "One"),
        ("   ## Two", "Two"),
        ("Set as title", "Set as title"),
        ("Second one", "Second one"),
        ("- a list", "- a list"),
        ("### Three", "Three"),
    ]


def test_markdown_headings_in_crlf():
    """Windows line ends change neither places nor labels."""
    text = "a\r\n# One\r\n\r\nTwo\r\n===\r\n"
    assert labels(text, "markdown") == [("# One\r", "One"), ("Two\r", "Two")]


def test_a_rule_below_a_heading_underlines_nothing():
    """A heading is found once, also where a rule follows it."""
    assert labels("# One\n---\ntext", "markdown") == [("# One", "One")]


def test_a_fence_with_an_info_string_does_not_close():
    """A line that opens a fence with a language cannot close one."""
    assert labels("```\n# a\n```python\n# b\n```\n# c", "markdown") == [("# c", "c")]


RST = """=====
Title
=====

Part
----
Not one
--
text
too short over
-----

Too long a title
---
"""


def test_rst_headings():
    """Titles with a line at least as long below, and above where there is one."""
    assert [mark.label for mark in find_headings(RST, "rst")] == ["Title", "Part"]
    assert find_headings(RST, "rst")[0].start == 0


def test_plain_text_has_no_headings():
    """Without markup a # is a #."""
    assert find_headings("# One\n", "plain") == []


def test_paragraphs_begin_behind_blank_lines():
    """A blank line may hold blanks; the white space before the text belongs to the one before."""
    text = "One.\n \t\n  Two.\r\n\r\nThree.\n\n"
    found = find_structure(text)
    assert [text[at:][:3] for at in found.paragraphs] == ["Two", "Thr"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One is here. ", "Two is here! ", "Is three here?"],
        ["Dr. Smith met Mr. Jones at 3.15 p.m. today. ", "He left."],
        ["今日は晴れです。", "明日は雨です。", "你好。"],
        ["Wow 😀. ", "A family 👨‍👩‍👧 is here. ", "Done."],
        ["الثعلب السريع؟ ", "النهر يجري."],
    ],
)
def test_sentences(sentences):
    """Sentences of several scripts; abbreviations do not end one; offsets are code points."""
    text = "".join(sentences)
    expected = np.cumsum([0, *[len(sentence) for sentence in sentences[:-1]]])
    assert sentence_starts(text).tolist() == expected.tolist()


def test_stretches_do_not_show():
    """A long text is split a stretch at a time, with the same result as sentence by sentence."""
    sentences = [f"This is the sentence with the number {i} in it. " for i in range(1500)]
    expected = np.cumsum([0, *[len(sentence) for sentence in sentences[:-1]]])
    assert sentence_starts("".join(sentences)).tolist() == expected.tolist()


def test_an_endless_sentence_is_one():
    """A stretch that ends within a word begins no sentence there."""
    text = "Short one. " + "word" * 5000 + " and on. Next."
    assert [text[at : at + 5] for at in sentence_starts(text)] == ["Short", "wordw", "Next."]


@pytest.mark.parametrize("markup", ["plain", "markdown", "rst"])
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=400) | st.text(alphabet="a#=-`~\n .。\r", max_size=400))
def test_places_are_in_order_and_in_the_text(markup, text):
    """Whatever the text: positions ascend, lie in it, and no sentence begins with white space."""
    found = find_structure(text, markup)
    for places in (found.headings, found.paragraphs, found.sentences):
        assert np.all(np.diff(places) > 0)
        assert np.all((places >= 0) & (places < max(1, len(text))))
    assert len(found.headings) == len(found.labels)
    assert not any(text[at].isspace() for at in found.sentences)
    assert not any(text[at].isspace() for at in found.paragraphs)
    if text.strip():
        assert text[: found.sentences[0]].strip() == ""


HOSTILE = {
    "one word": "a" * 300_000,
    "newlines": "\n" * 300_000,
    "fences": "```" * 100_000,
    "fence lines": "```\n" * 75_000,
    "underlines": "a\n---\n" * 50_000,
    "short sentences": "你。" * 150_000,
    "stops": ". " * 150_000,
    "blank lines": ("\n" + " " * 50) * 6_000,
    "hashes": "#" * 300_000,
    "combining": "e" + "\u0301" * 300_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_no_quadratic_time(name):
    """300,000 characters of anything within two seconds of this process's time (usually 0.1)."""
    begin = time.process_time()
    find_structure(HOSTILE[name], "markdown")
    assert time.process_time() - begin < 2


def test_a_long_quotation_does_not_hide_its_sentences():
    """The splitter keeps a quotation whole; one as long as a chapter is split all the same."""
    text = "He said: \u201cIt was late. " + "They went on through the wood. " * 400 + "Then.\u201d"
    assert len(sentence_starts(text)) > 400
