"""What happens without the frameworks, and what importing costs."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("package", "framework", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("llama_index", "llama_index.core", "llama-index"),
    ],
)
def test_missing_framework_names_the_extra(package, framework, extra):
    """Without the framework the import gives MissingExtraError with the pip line."""
    said = run(f"""
import sys
sys.modules[{framework!r}] = None
from lmk_integrations import MissingExtraError
try:
    import lmk_integrations.{package}
except MissingExtraError as error:
    print(error)
""")
    assert f"pip install 'lmk-integrations[{extra}]'" in said


def test_adapters_do_not_need_each_other():
    """Each adapter works where the other framework is not installed."""
    said = run("""
import sys
sys.modules["llama_index"] = None
import lmk_integrations.langchain
print(any(name.split(".")[0] in ("torch", "transformers") for name in sys.modules))
""")
    assert said == "False"  # and the weights' libraries wait for the first model
    said = run("""
import sys
sys.modules["langchain_core"] = None
import lmk_integrations.llama_index
print("ok")
""")
    assert said == "ok"
