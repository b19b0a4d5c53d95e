"""Peers: their files need nothing of this package, their environments are made once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

import lmk_integrations.bench
from lmk_integrations.bench.peers import (
    ENCODERS,
    LANGCHAIN_STORE,
    PIPELINES,
    Peer,
    environment,
    shared_versions,
    start,
)
from lmk_integrations.bench.workers import WorkerError

FOLDER = Path(lmk_integrations.bench.__file__).parent
PEERS = [LANGCHAIN_STORE, *ENCODERS.values(), *PIPELINES.values()]


@pytest.mark.parametrize("path", [FOLDER / "serve.py", *sorted(FOLDER.glob("peer_*.py"))], ids=str)
def test_files_for_other_environments_stand_alone(path):
    """They import only Python's own modules at the top, and this package nowhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    ]
    assert not [name for name in names if name.startswith("lmk_integrations")]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_is_served_by_its_file(peer):
    """The file knows the key, and opens it without the libraries being there."""
    namespace: dict = {"__name__": "peer"}
    exec(compile(peer.path.read_text(encoding="utf-8"), str(peer.path), "exec"), namespace)
    assert hasattr(namespace["open_worker"](peer.key), "load")


def made_up(home: str, requirement: str) -> Peer:
    """A peer that is not here."""
    return Peer(
        "Nobody's", "peer_stores.py", "langchain", home, ("no_such_module.at_all",), (requirement,)
    )


def test_one_that_cannot_be_installed_says_why(tmp_path):
    """With pip's own last words; and it is tried again, not taken for installed."""
    peer = made_up("nobody", str(tmp_path / "no-such-package"))
    for _ in range(2):
        with pytest.raises(WorkerError, match=r"Nobody's cannot be installed: .*no-such-package"):
            start(peer, tmp_path / "homes")


def test_an_environment_is_kept(tmp_path):
    """As long as the requirements are the same."""
    home = tmp_path / "nobody"
    home.mkdir()
    (home / "installed.txt").write_text("thing>=1")
    python = environment(made_up("nobody", "thing>=1"), tmp_path)
    assert python.is_relative_to(home)


def test_only_environments_are_replaced(tmp_path):
    """A folder that something else made keeps what is in it."""
    home = tmp_path / "nobody"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    with pytest.raises(WorkerError, match=f"cannot be installed: {home} is no environment"):
        environment(made_up("nobody", "thing>=1"), tmp_path)
    assert (home / "thesis.txt").read_text() == "years of work"


def test_peers_have_the_torch_that_is_here():
    """Without the part that names its build, which another index may not have."""
    (constraint,) = shared_versions()
    assert re.fullmatch(r"torch==[\d.]+", constraint)
    assert constraint.removeprefix("torch==") == torch.__version__.partition("+")[0]
