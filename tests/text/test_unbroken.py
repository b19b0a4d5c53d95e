"""Runs that nobody wrote to be read are counted, and nothing that people write is."""

import base64
import time

import pytest

from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.text.unbroken import NOTE, count_unbroken, unbroken_notes

BASE64 = base64.b64encode(bytes(range(256)) * 30).decode()


def test_runs_are_counted():
    """From 1,000 characters on, by their length."""
    assert count_unbroken(f"Before {BASE64} behind") == len(BASE64)
    assert count_unbroken("a" * 999 + " " + "b" * 1000) == 1000
    assert unbroken_notes(["a" * 1000, "short", "b" * 2000]) == {NOTE: 3000}


@pytest.mark.parametrize("text", ["word " * 5000, "四世同堂" * 5000, "ภาษาไทย" * 900, "\n" * 9000])
def test_what_people_write_is_not(text):
    """Chinese, Japanese and Thai have no spaces either."""
    assert unbroken_notes([text]) == {}


@pytest.mark.parametrize("text", ["a" * 3_000_000, ("a" * 999 + " ") * 3000])
def test_it_takes_no_time(text):
    """Three megabytes."""
    begin = time.process_time()
    count_unbroken(text)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(("count", "warned"), [(10_000, False), (10_001, True)])
def test_much_of_it_is_a_warning(count, warned):
    """In the report, with the document's name."""
    report = IngestReport()
    report.add_notes("docs/a.txt", {NOTE: count, "nul_removed": 1})
    assert bool(report.warnings) == warned
    assert all("docs/a.txt: 10,001 of its characters" in text for text in report.warnings)
    assert report.notes == {NOTE: count, "nul_removed": 1}
