"""The examples in the core's docstrings are true."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

from lmk_integrations import core

MODULES = [info.name for info in pkgutil.iter_modules(core.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    """Each module of the core has examples, and they print what they say."""
    module = importlib.import_module(f"lmk_integrations.core.{name}")
    result = doctest.testmod(module, extraglobs={"np": np})
    assert result.attempted > 0
    assert result.failed == 0
