"""README's commands do what README shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from readme_blocks import Example, examples_of, matches

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# The test command would start itself; the quickstart makes a virtual environment, and is run on
# every submission by .ci/run.
LEFT_OUT = ("bash tests/run.sh", "bash examples/quickstart.sh", "pip install", "git clone")
EXAMPLES = [e for e in examples_of(README) if not e.code.startswith(LEFT_OUT)]


def test_blocks_are_found_and_compared():
    """The extractor sees commands, their output, and Python with its output."""
    sample = "```console\n$ echo a b\na b\n$ true\n```\nand\n```python\nprint(1.5)\n```\n"
    sample += "\n```text\n1...\n```\n"
    found = examples_of(sample)
    assert found == [
        Example("console", "echo a b", "a b\n"),
        Example("console", "true", ""),
        Example("python", "print(1.5)\n", "1...\n"),
    ]
    assert matches("1...\n", "1.5\n")
    assert matches("a ... c", "a  b\n c\n")
    assert not matches("a ... d", "a b c")
    assert not matches("a b", "a b c")


def test_readme_has_examples():
    """An extractor that finds nothing would pass everything."""
    assert len([e for e in EXAMPLES if e.kind == "console"]) >= 3
    assert len([e for e in EXAMPLES if e.kind == "python"]) >= 4


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the clone's examples, where stores may be made."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: " ".join(e.code.split())[:60])
def test_readme_example(example, workplace):
    """Runs, in README's order and in one folder, and prints what README shows."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = (
        ["bash", "-c", example.code]
        if example.kind == "console"
        else [sys.executable, "-W", "ignore", "-c", example.code]
    )
    done = subprocess.run(
        command,
        cwd=workplace,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PATH": paths, "COLUMNS": "80", "HOME": str(workplace)},
    )
    assert done.returncode == 0, done.stderr
    if example.expected is not None:
        assert matches(example.expected, done.stdout), done.stdout
