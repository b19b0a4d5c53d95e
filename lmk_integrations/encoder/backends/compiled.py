"""A model compiled by torch.compile, which is slow at first and pays on long runs."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn

from lmk_integrations.encoder.backends.agreement import agree
from lmk_integrations.encoder.backends.packed import PackedEncoder
from lmk_integrations.encoder.backends.padded import PaddedEncoder
from lmk_integrations.errors import ModelError


def compile_encoder(encoder: PackedEncoder | PaddedEncoder) -> None:
    """Let the encoder run compiled graphs; each is made when it is first used.

    Batches of other shapes use the same graph. Raises ModelError where PyTorch cannot compile
    here, which for most reasons is known at the first batch only.
    """
    encoder.model = CompiledModel(encoder.model)
    if encoder.at_rows is not None:
        encoder.at_rows = CompiledModel(encoder.at_rows)


class CompiledModel(nn.Module):
    """Stands in for a module, and gives what it gives. Shares its weights."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self._is_checked = False
        try:
            self._run: Callable[..., Any] = torch.compile(_own_code(module), dynamic=True)
        except RuntimeError as error:  # a Python that this PyTorch cannot compile for
            raise _refusal(error) from error

    def forward(self, **arguments: Any) -> Any:
        """As the module's. Raises ModelError where it cannot be compiled, or comes out wrong."""
        from torch._dynamo.exc import TorchDynamoException

        try:
            found = self._run(**arguments)
        except TorchDynamoException as error:
            raise _refusal(error) from error
        if not self._is_checked:
            if not agree(_states(found), _states(self.module(**arguments))):
                raise _refusal("the compiled model gives other states than the model itself")
            self._is_checked = True
        return found


def _own_code(module: nn.Module) -> Callable[..., Any]:
    """The module as a function with a code object of its own.

    PyTorch keeps graphs by code object, and only a handful for each: encoders that shared one
    would use up each other's.
    """

    def run(**arguments: Any) -> Any:
        return module(**arguments)

    return FunctionType(
        run.__code__.replace(), run.__globals__, closure=run.__closure__, name=run.__name__
    )


def _states(output: Any) -> torch.Tensor:
    states: torch.Tensor = output if isinstance(output, torch.Tensor) else output.last_hidden_state
    return states.flatten(0, -2)


def _refusal(error: object) -> ModelError:
    return ModelError(
        f"compile=True: PyTorch cannot compile the model here ({_first_line(error)}). It needs a "
        "C++ compiler, and Triton on a GPU; compile=False needs neither"
    )


def _first_line(error: object) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
