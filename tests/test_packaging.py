"""What is installed is what the sources say."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import lmk_integrations

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [path] = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_wheel_holds_the_package_and_nothing_else(wheel):
    """py.typed and the licence travel; tests and examples stay behind."""
    names = wheel.namelist()
    assert "lmk_integrations/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lmk_integrations"}
    sources = {str(p.relative_to(ROOT)) for p in (ROOT / "lmk_integrations").rglob("*.py")}
    assert sources <= set(names)
    model = {p.name for p in (ROOT / "lmk_integrations" / "models" / "lmk-minilm").iterdir()}
    assert {"model.safetensors", "lmk_config.json", "tokenizer.json", "README.md"} <= model
    assert {f"lmk_integrations/models/lmk-minilm/{name}" for name in model} <= set(names)


def test_wheel_carries_the_version(wheel):
    """One version, in the package."""
    [metadata] = [name for name in wheel.namelist() if name.endswith("METADATA")]
    assert f"\nVersion: {lmk_integrations.__version__}\n" in wheel.read(metadata).decode()


def test_every_extra_that_is_asked_for_exists():
    """The pip lines of MissingExtraError and of docstrings work."""
    extras = set(PROJECT["optional-dependencies"])
    asked = set()
    for path in (ROOT / "lmk_integrations").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for group in re.findall(r"lmk-integrations\[([a-z][a-z,-]*)\]", text):
            asked |= set(group.split(","))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                asked |= {k.value.value for k in node.keywords if k.arg == "extra"}
    assert asked
    assert asked <= extras


def test_missing_extra_names_the_remedy():
    """A missing dependency is one error with its pip line; a broken one stays itself."""
    from lmk_integrations._extras import require
    from lmk_integrations.errors import MissingExtraError

    with pytest.raises(MissingExtraError, match=r"pip install 'lmk-integrations\[office\]'"):
        require("no_such_module_at_all", extra="office")


def test_top_level_is_as_agreed():
    """Nothing but the agreed files lies at the top of the repository."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    tops = {line.split("/")[0] for line in listed if line}
    agreed = {"lmk_integrations", "examples", "tests", "pyproject.toml", "README.md", "LICENSE"}
    assert {top for top in tops if not top.startswith(".")} == agreed
