"""Fenced blocks of a Markdown file, as commands with the output they promise."""

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """code: shell commands or Python; expected: the output, where ``...`` stands for anything."""

    kind: str
    code: str
    expected: str | None


def examples_of(markdown: str) -> list[Example]:
    """```console blocks ("$ command" lines, then output) and ```python blocks with a ```text
    block right behind them, which is what they print. Other blocks are prose.
    """
    found: list[Example] = []
    end = -1
    for match in _FENCE.finditer(markdown):
        kind, body = match["kind"], match["body"]
        follows = markdown[end : match.start()].strip() == "" if end >= 0 else False
        if kind == "console":
            found += _console(body)
        elif kind == "python":
            found.append(Example("python", body, None))
        elif kind == "text" and follows and found and found[-1].kind == "python":
            found[-1] = Example("python", found[-1].code, body)
        end = match.end()
    return found


def _console(body: str) -> list[Example]:
    found: list[Example] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Example("console", line[2:], ""))
        elif found:
            last = found[-1]
            found[-1] = Example("console", last.code, (last.expected or "") + line + "\n")
    return found


def matches(expected: str, printed: str) -> bool:
    """Whether output is as promised: ``...`` is anything, and all white space is equal."""
    parts = [r"\s+".join(re.escape(w) for w in part.split()) for part in expected.split("...")]
    pattern = r"\s*" + r".*?".join(r"\s*" + part + r"\s*" for part in parts) + r"\s*"
    return re.fullmatch(pattern, printed, re.DOTALL) is not None
