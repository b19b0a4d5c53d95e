"""`lmk` with a server that goes away, as a shell sees it."""

from __future__ import annotations

from pathlib import Path

from lmk_commands import lmk, result
from qdrant_server import Fault, serve


def test_a_server_that_goes_away_is_4_and_the_next_run_resumes(tmp_path: Path) -> None:
    """What is stored is kept; the same command goes on, and what it left verifies."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(3):
        (docs / f"{number}.txt").write_text("The river ran past the mill. " * (8 + 400 * number))
    with serve("rest") as server:
        server.faults.plan.append(Fault("answer", "upsert", after=1, times=10**6, message="busy"))
        ingest = ("ingest", "docs", "-c", "c", "--to", server.url, "--section-tokens", 64, "--json")
        done = lmk(*ingest, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (4, "")
        assert "in 5 attempts: HTTP 503: busy" in done.stderr
        assert "run again to resume" in done.stderr
        assert "Traceback" not in done.stderr
        stored = server.store.count("c").count
        assert stored > 0
        server.faults.mend()
        again = lmk(*ingest, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        report = result(again)
        assert report["new"] + report["unchanged"] == 3
        assert report["sections"] < server.store.count("c").count - 3
        done = lmk("verify", "docs", "-c", "c", "--to", server.url, "--json", cwd=tmp_path)
        assert (done.returncode, result(done)["problems"]) == (0, [])
