"""The model card that goes into a trained model's README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_USE = """```python
from lmk_integrations import LMKEncoder

encoder = LMKEncoder("path/to/this/directory")
vectors = encoder.encode_documents(["A text of any length ..."])
query = encoder.encode_queries(["a question"])
```"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What a reader of the model's directory must know.

    name: the heading. base: what it was made from. summary: how, in a sentence or two. data: what
    it saw, an entry each. settings: of the training. figures: name -> number or text. license: an
    SPDX name, where it is known; notes: further paragraphs (attribution, limits).
    """

    name: str
    base: str
    summary: str
    data: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    license: str | None = None
    notes: Sequence[str] = ()

    def render(self) -> str:
        """The text of README.md, with the metadata that model hubs read on top."""
        head = ["---", "library_name: lmk-integrations", "pipeline_tag: sentence-similarity"]
        if self.license is not None:
            head.append(f"license: {self.license}")
        head += ["tags:", "- landmark-pooling", "- feature-extraction", "---"]
        parts = [
            "\n".join(head),
            f"# {_line(self.name)}",
            self.summary,
            f"Base: `{_line(self.base)}`.",
            "## Use",
            _USE,
            "## Data",
            "\n".join(f"- {_line(entry)}" for entry in self.data),
        ]
        for title, values in (("Figures", self.figures), ("Settings", self.settings)):
            if values:
                parts += [f"## {title}", _table(values)]
        parts += self.notes
        return "\n\n".join(parts) + "\n"


def _table(values: Mapping[str, Any]) -> str:
    rows = [f"| {_cell(name)} | {_cell(_shown(value))} |" for name, value in values.items()]
    return "\n".join(["| | |", "| - | - |", *rows])


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return str(value)


def _cell(text: str) -> str:
    return _line(text).replace("|", r"\|")


def _line(text: str) -> str:
    return " ".join(str(text).split())
