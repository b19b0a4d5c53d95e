"""Making a graph: export, and proof that it computes what the model computes."""

from __future__ import annotations

import json
import logging
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from lmk_integrations.encoder.backends.base import Floats, Ints
from lmk_integrations.encoder.backends.graph import SIZES_NAME, Engine
from lmk_integrations.encoder.backends.graph_module import example, graph_module
from lmk_integrations.errors import LMKError, ModelError

logger = logging.getLogger(__name__)

# The least cosine to torch. In int8 a value on the border of two steps may fall on either side.
_LEAST = {"float32": 0.99999, "int8": 0.99}


def export_graph(
    engine: Engine,
    directory: Path,
    folder: Path,
    *,
    dtype: str,
    at_rows: bool,
    calibration: list[Ints] | None,
) -> None:
    """Fill a folder with a model's graph. Arguments as for `graph_module`.

    Raises ModelError where the engine cannot take the model, or gives other numbers.
    """
    started = time.monotonic()
    try:
        sizes = _export(engine, directory, folder, dtype, at_rows, calibration)
    except ModelError as error:
        if not at_rows:
            raise
        logger.info("the last layer is computed at all positions: %s", error)
        sizes = _export(engine, directory, folder, dtype, False, calibration)
    (folder / SIZES_NAME).write_text(json.dumps(sizes), encoding="utf-8")
    logger.info("exported %s for %s in %.1f s", directory, engine.name, time.monotonic() - started)


def _export(
    engine: Engine,
    directory: Path,
    folder: Path,
    dtype: str,
    at_rows: bool,
    calibration: list[Ints] | None,
) -> dict[str, int]:
    """Export and compare. Returns the sizes that `graph_module` tells."""
    module, sizes = graph_module(directory, at_rows=at_rows, calibration=calibration)
    n_embeddings = sizes["n_embeddings"]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing: what matters of them is compared below
        try:
            engine.export(module, example(n_embeddings, windows=2, length=24), folder, dtype)
            found, expected = _both(engine, module, folder, n_embeddings)
        except LMKError:
            raise
        except Exception as error:  # each library raises errors of its own kinds
            raise ModelError(
                f"{engine.name} cannot take over the model in {directory} "
                f"({type(error).__name__}: {_first_line(error)}); use backend='torch'"
            ) from error
    cosine = _least_cosine(found, expected)
    if not cosine >= _LEAST["float32" if calibration is None else "int8"]:
        raise ModelError(
            f"{engine.name} computes other numbers than torch for the model in {directory} "
            f"(cosine {cosine:.5f}); use backend='torch'"
        )
    return sizes


def _both(
    engine: Engine, module: torch.nn.Module, folder: Path, n_embeddings: int
) -> tuple[Floats, Floats]:
    """Rows by the engine and by torch, of a batch whose sizes all differ from the traced one's."""
    inputs = example(n_embeddings, windows=3, length=41)
    found = engine.open(folder, "float32")([value.numpy() for value in inputs])
    expected: Floats = module(*inputs).float().numpy()
    return found, expected


def _least_cosine(found: Floats, expected: Floats) -> float:
    if found.shape != expected.shape:
        return float("nan")
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return float(((found * expected).sum(axis=1) / norms).min())


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]
