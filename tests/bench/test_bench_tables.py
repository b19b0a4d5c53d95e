"""Markdown tables that are aligned as text."""

from lmk_integrations.bench.tables import markdown


def test_words_to_the_left_figures_to_the_right():
    """Every line is as wide as the widest."""
    shown = markdown(["who", "ms"], [["a", "1.25"], ["longer", "10.50"]])
    assert shown.split("\n") == [
        "| who    |    ms |",
        "| ------ | ----: |",
        "| a      |  1.25 |",
        "| longer | 10.50 |",
    ]
    assert markdown(["a", "b"], [["c", "d"]], left=2).split("\n")[1] == "| - | - |"
