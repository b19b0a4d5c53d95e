"""The shape of the package: imports point one way, the core is pure, importing is light."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "lmk_integrations"
FILES = sorted(PACKAGE.rglob("*.py"))

# A part may import those of a lower rank, and itself. Equal ranks never meet.
RANKS = {
    "errors": 0,
    "records": 0,
    "file_types": 0,
    "_extras": 1,
    "core": 1,
    "text": 2,
    "encoder": 3,
    "sentence_transformers": 4,
    "_adapters": 4,
    "ingest": 4,
    "qdrant": 5,
    "langchain": 6,
    "llama_index": 6,
    "evaluation": 6,
    "bench": 6,
    "training": 7,
    "study": 8,
    "cli": 9,
}
PURE = {"collections", "dataclasses", "itertools", "math", "typing", "__future__", "numpy"}
READS_ENVIRONMENT = {
    "cli",
    "qdrant/connect.py",
    "encoder/backends/cache_folder.py",
    "encoder/backends/memory.py",
}
HEAVY = ["torch", "transformers", "langchain_core", "llama_index", "qdrant_client", "qdrant_edge"]


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> list[tuple[str, int]]:
    """Every module imported anywhere in a file, those inside functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            if base == "lmk_integrations":
                found += [(f"{base}.{alias.name}", node.lineno) for alias in node.names]
            else:
                found.append((base, node.lineno))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    """A part imports only parts of lower rank; the package's own __init__ is the lazy table."""
    part = part_of(path)
    if part == "__init__":
        return
    for module, line in imported(path):
        names = module.split(".")
        if names[0] != "lmk_integrations" or names[1:2] == ["__version__"]:
            continue
        other = names[1]
        assert other in RANKS, f"{path}:{line} imports {module}, which has no rank"
        allowed = other == part or RANKS[other] < RANKS[part]
        assert allowed, f"{path}:{line}: {part} must not import {other}"


def test_every_part_has_a_rank():
    """A new part must be placed before it can be used."""
    parts = {part_of(path) for path in FILES} - {"__init__"}
    assert parts == set(RANKS)


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").glob("*.py")), ids=lambda p: p.name)
def test_core_is_pure(path):
    """The core knows numbers only: no files, clock, environment, logging or randomness."""
    for module, line in imported(path):
        top = module.split(".")[0]
        assert top in PURE or module.startswith("lmk_integrations.core"), f"{path}:{line} {module}"
    text = path.read_text(encoding="utf-8")
    names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    assert not names & {"open", "print", "input"}
    assert "np.random" not in text


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_environment_is_read_at_the_edge(path):
    """Only the command line, a key, the cache's place and the allocator's own settings."""
    place = str(path.relative_to(PACKAGE))
    if part_of(path) in READS_ENVIRONMENT or place in READS_ENVIRONMENT:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            names = [alias.name for alias in node.names]
        assert not {"environ", "environb", "getenv"} & set(names), f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_command_line_prints(path):
    """A library logs; what is written to a terminal belongs to `lmk`."""
    if part_of(path) == "cli":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{path}:{node.lineno}"


def test_import_is_light():
    """`import lmk_integrations` loads none of the heavy libraries and takes under a second."""
    code = (
        f"import sys, lmk_integrations\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert time.monotonic() - started < 5  # a stalled machine; a heavy import is caught above


def test_public_names_resolve():
    """Everything in __all__ can be had, and the lazy names are listed."""
    import lmk_integrations

    for name in lmk_integrations.__all__:
        assert getattr(lmk_integrations, name) is not None
    assert set(lmk_integrations._LAZY) <= set(lmk_integrations.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lmk_integrations.no_such_name
