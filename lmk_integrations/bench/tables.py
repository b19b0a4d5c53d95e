"""Tables as Markdown, aligned so that they can be read as they are."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table. left: columns that hold words, aligned to the left; the others hold figures."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = [
        "-" * width if column < left else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    shown = []
    for line in [lines[0], rule, *lines[1:]]:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append(f"| {' | '.join(cells)} |")
    return "\n".join(shown)
