"""What chooses a model, and what runs it, on the command line."""

import argparse
from typing import get_args

import pytest

from lmk_integrations import cli
from lmk_integrations.cli import model_args
from lmk_integrations.encoder.settings import BackendName, Dtype


def commands():
    """Each command's options by name."""
    found = next(
        action
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {
        name: {option for action in parser._actions for option in action.option_strings}
        for name, parser in found.choices.items()
    }


def test_whoever_opens_a_model_says_how_it_is_run():
    """Every command with --model has --device, --dtype, --backend and --compile."""
    with_model = {name: has for name, has in commands().items() if "--model" in has}
    assert {"ingest", "search", "eval", "mine"} <= set(with_model)
    for name, has in with_model.items():
        if name != "bench":
            assert {"--device", "--dtype", "--backend", "--compile"} <= has, name


def test_the_choices_are_those_of_the_encoder():
    """The parser loads no encoder, so it spells them out again."""
    assert get_args(Dtype) == model_args.DTYPES
    assert get_args(BackendName) == model_args.BACKENDS


@pytest.mark.parametrize(("option", "choice"), [("--dtype", "int8"), ("--backend", "onnx")])
def test_another_word_is_a_mistake_in_usage(option, choice, capsys):
    """Exit code 2, and the choices are named."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["search", "words", "-c", "c", option, "fast"])
    assert stop.value.code == 2
    assert choice in capsys.readouterr().err
