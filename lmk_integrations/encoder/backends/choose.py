"""Which backend runs a model, by rule.

"auto" takes OpenVINO where it is known to be the fastest and to change no vector beyond bfloat16's
rounding: on a CPU that multiplies bfloat16 (or for dtype="int8"), for encoders built like BERT, in
windows of up to 1,024 positions, if the package is installed. PyTorch runs everything else:
GPUs, float32, sliding windows, decoders, long windows. ONNX Runtime is taken by "auto" only for
int8 without OpenVINO: in float32 PyTorch is faster. With compile=True, "auto" is PyTorch.
"""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lmk_integrations.encoder.backends.base import Backend, Ints
from lmk_integrations.encoder.backends.cache_folder import cache_folder
from lmk_integrations.encoder.backends.graph import Engine, GraphBackend
from lmk_integrations.encoder.backends.graph_cache import GraphCache
from lmk_integrations.encoder.backends.hardware import computes_on_cpu, cpu_multiplies_bfloat16
from lmk_integrations.encoder.backends.onnx import OnnxRuntime
from lmk_integrations.encoder.backends.openvino import OpenVINO
from lmk_integrations.encoder.identity import digest_of
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.errors import ConfigError, LMKError, MissingExtraError

logger = logging.getLogger(__name__)

GRAPH_VERSION = 1
"""Raised when a change to this package changes the graphs it exports."""

INT8_SCHEME = "w8a8-1"
"""Names how dtype="int8" rounds (see `graph_int8`); part of the fingerprint."""

_ENGINES: dict[str, Callable[[], Engine]] = {"openvino": OpenVINO, "onnx": OnnxRuntime}
_PACKAGES = {"openvino": "openvino", "onnx": "onnxruntime"}
_LIKE_BERT = {"bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"}
_LONGEST_WINDOW = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a backend needs to know of an open model.

    transformer: the directory of config.json and the weights. weights, architecture: digests.
    single_rows: whether wanted rows are a few single positions, as with landmarks.
    max_length: positions of the longest window. calibration: makes token ids of typical windows.
    """

    transformer: Path
    weights: Callable[[], str]
    architecture: Callable[[], str]
    pad_id: int
    single_rows: bool
    max_length: int
    calibration: Callable[[], list[Ints]]


def open_backend(settings: EncoderSettings, model: ModelFacts) -> Backend:
    """The backend that the settings ask for, ready to run.

    Raises ConfigError where backend, device and dtype do not go together, MissingExtraError where
    the package of a backend is missing, ModelError where it cannot take the model.
    """
    if settings.backend in _ENGINES:
        return _open_graph(settings.backend, settings, model)
    if settings.backend == "auto" and settings.dtype == "int8":
        return _open_graph(_first_installed(), settings, model)
    if settings.backend == "auto" and not settings.compile and _prefers_openvino(settings, model):
        try:
            return _open_graph("openvino", settings, model)
        except LMKError as error:
            logger.warning("torch runs the model, OpenVINO does not: %s", error)
    from lmk_integrations.encoder.backends.torch import TorchBackend

    if settings.dtype == "int8":
        raise ConfigError(
            "dtype='int8' is not to be had with backend='torch'; use backend='openvino' or 'onnx'"
        )
    return TorchBackend(
        model.transformer,
        pad_id=model.pad_id,
        device=settings.device,
        dtype=settings.dtype,
        compiled=settings.compile,
    )


def _open_graph(name: str, settings: EncoderSettings, model: ModelFacts) -> Backend:
    engine = _ENGINES[name]()
    dtype = _dtype(engine, settings)
    calibration = model.calibration() if dtype == "int8" else None
    folder = GraphCache(cache_folder() / "graphs").get(
        _key(engine, dtype, model, calibration),
        partial(_export, engine, dtype, model, calibration),
    )
    return GraphBackend(
        engine, folder, dtype=dtype, pad_id=model.pad_id, max_length=model.max_length
    )


def _export(
    engine: Engine, dtype: str, model: ModelFacts, calibration: list[Ints] | None, folder: Path
) -> None:
    from lmk_integrations.encoder.backends.graph_export import export_graph  # loads transformers

    export_graph(
        engine,
        model.transformer,
        folder,
        dtype=dtype,
        at_rows=model.single_rows,
        calibration=calibration,
    )


def _dtype(engine: Engine, settings: EncoderSettings) -> str:
    """The dtype that the engine computes in. It runs on the CPU only."""
    if settings.device not in ("auto", "cpu"):
        raise ConfigError(
            f"device={settings.device!r} is not to be had with backend={engine.name!r}, which "
            "runs on the CPU; use device='cpu', or backend='torch'"
        )
    dtype: str = settings.dtype
    if dtype == "auto":
        fast = "bfloat16" in engine.dtypes and cpu_multiplies_bfloat16()
        dtype = "bfloat16" if fast else "float32"
    if dtype not in engine.dtypes:
        raise ConfigError(
            f"dtype={dtype!r} is not to be had with backend={engine.name!r}; it computes in "
            f"{', '.join(engine.dtypes)}"
        )
    return dtype


def _key(engine: Engine, dtype: str, model: ModelFacts, calibration: list[Ints] | None) -> str:
    """Names a graph by all it depends on."""
    parts = {
        "weights": model.weights(),
        "architecture": model.architecture(),
        "single_rows": model.single_rows,
        "dtype": dtype,
        "graph": GRAPH_VERSION,
        "versions": engine.versions,
        "int8": None if calibration is None else INT8_SCHEME,
        "calibration": None if calibration is None else [ids.tolist() for ids in calibration],
    }
    return f"{engine.name}-{dtype}-{digest_of(parts)}"


def _first_installed() -> str:
    for name, package in _PACKAGES.items():
        if importlib.util.find_spec(package) is not None:
            return name
    raise MissingExtraError(
        "dtype='int8' needs OpenVINO or ONNX Runtime, and neither is installed. Install one with: "
        "pip install 'lmk-integrations[openvino]'"
    )


def _prefers_openvino(settings: EncoderSettings, model: ModelFacts) -> bool:
    """The rule above."""
    if settings.dtype not in ("auto", "bfloat16") or settings.device not in ("auto", "cpu"):
        return False
    if model.max_length > _LONGEST_WINDOW or importlib.util.find_spec("openvino") is None:
        return False
    config = json.loads((model.transformer / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") not in _LIKE_BERT or config.get("is_decoder"):
        return False
    return computes_on_cpu(settings.device) and cpu_multiplies_bfloat16()
