"""Figures as files. Needs matplotlib, and only when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lmk_integrations._extras import require

Points = Sequence[tuple[float, float]]


def check_plot(path: Path) -> None:
    """Raise, before any work is done, where a figure could not be drawn in the end."""
    require("matplotlib", extra="bench")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent} to write a figure in")


def draw(path: Path, lines: Mapping[str, Points], *, title: str, x: str, y: str) -> None:
    """Lines over logarithmic axes. lines: name -> (x, y) points. The suffix says the format."""
    require("matplotlib", extra="bench")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in lines.items():
        axes.plot([at for at, _ in points], [value for _, value in points], marker="o", label=name)
    axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)
