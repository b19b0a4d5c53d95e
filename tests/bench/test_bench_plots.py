"""Where a figure goes is looked at before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmk_integrations.bench.plots import check_plot
from lmk_integrations.errors import ConfigError


@pytest.mark.parametrize("name", ["f.xyz", "f", "f.svg.txt", ".svg"])
def test_a_format_that_cannot_be_drawn_is_refused_at_once(name: str, tmp_path: Path) -> None:
    """It would otherwise be found out after hours of measuring, and the results be lost."""
    with pytest.raises(ConfigError, match=r"give a name that ends in \.png, \.svg or \.pdf"):
        check_plot(tmp_path / name)


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """A folder of that name, a folder that is not there: each is named."""
    folder = tmp_path / "f.svg"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"f\.svg is a folder"):
        check_plot(folder)
    with pytest.raises(ConfigError, match=r"no folder .*nowhere"):
        check_plot(tmp_path / "nowhere" / "f.svg")


@pytest.mark.parametrize("name", ["f.png", "f.SVG", "f.pdf"])
def test_what_can_be_drawn_passes(name: str, tmp_path: Path) -> None:
    """The formats that the help names, in either case; nothing is written yet."""
    check_plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
