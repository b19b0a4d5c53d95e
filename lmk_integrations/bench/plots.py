"""Figures as files. Needs matplotlib, and only when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmk_integrations._extras import require
from lmk_integrations.errors import ConfigError

Points = Sequence[tuple[float, float]]
_FORMATS = (".png", ".svg", ".pdf")


@dataclass(slots=True)
class Panel:
    """One picture of several. lines: name -> (x, y, low, high) points, with their intervals."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float, float, float]]]
    log_x: bool = False


def check_plot(path: Path) -> None:
    """Raise ConfigError, before any work is done, where a figure could not be drawn in the end."""
    require("matplotlib", extra="bench")
    if path.suffix.lower() not in _FORMATS:
        raise ConfigError(
            f"{path} is no figure that can be drawn: give a name that ends in .png, .svg or .pdf"
        )
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give the name of a file for the figure")
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent} to write a figure in")


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


def draw_panels(path: Path, panels: Sequence[Panel]) -> None:
    """Panels side by side. The suffix says the format."""
    require("matplotlib", extra="bench")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(panels), 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, points in panel.lines.items():
            at, value, low, high = zip(*points, strict=True)
            [line] = axes.plot(at, value, marker="o", label=name)
            axes.fill_between(at, low, high, color=line.get_color(), alpha=0.15)
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.log_x:
            ticks = sorted({point[0] for points in panel.lines.values() for point in points})
            axes.set_xscale("log", base=2)
            axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path)
