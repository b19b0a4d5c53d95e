"""What a model directory says of itself: lmk_config.json, else its sentence-transformers files.

Nothing here runs code from the directory: module classes are recognised by name, never imported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.core.pooling import POOLINGS, Pooling
from lmk_integrations.errors import ModelError

LMK_CONFIG = "lmk_config.json"
_LMK_KEYS = {
    "version",
    "pooling",
    "granularity",
    "max_tokens",
    "query_prompt",
    "document_prompt",
    "trained_granularities",
}
_ST_POOLING = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
_ST_LEGACY = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
_ACTIVATIONS = {"Identity": "identity", "Tanh": "tanh", "GELU": "gelu", "ReLU": "relu"}


@dataclass(frozen=True, slots=True)
class DenseFiles:
    """One Dense module after the pooling: where its weights lie, and its activation."""

    directory: Path
    activation: str


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model directory, read. None: the directory does not say."""

    transformer: Path
    pooling: Pooling | None = None
    landmark_trained: bool = False
    granularity: int | None = None
    max_tokens: int | None = None
    lower_case: bool = False
    pool_prompt: bool = True
    query_prompt: str | None = None
    document_prompt: str | None = None
    dense: tuple[DenseFiles, ...] = ()


def read_model_files(directory: Path) -> ModelFiles:
    """Read a model directory. Raises ModelError for a module or pooling that is not known."""
    modules = _read_json(directory / "modules.json", optional=True)
    files = _from_modules(directory, modules) if modules else ModelFiles(directory)
    lmk = _read_json(directory / LMK_CONFIG, optional=True)
    return _with_lmk_config(files, directory, lmk) if lmk is not None else files


def _with_lmk_config(files: ModelFiles, directory: Path, lmk: dict[str, Any]) -> ModelFiles:
    if unknown := sorted(set(lmk) - _LMK_KEYS):
        raise ModelError(
            f"{directory / LMK_CONFIG} holds the unknown key {unknown[0]!r}: it was written by a "
            "newer version; upgrade lmk-integrations"
        )
    pooling = lmk.get("pooling", "lmk")
    if pooling not in POOLINGS:
        raise ModelError(
            f"{directory / LMK_CONFIG} names the pooling {pooling!r}; known are "
            f"{', '.join(POOLINGS)}"
        )
    return ModelFiles(
        transformer=files.transformer,
        pooling=pooling,
        landmark_trained=pooling == "lmk",
        granularity=lmk.get("granularity"),
        max_tokens=lmk.get("max_tokens"),
        lower_case=files.lower_case,
        pool_prompt=files.pool_prompt,
        query_prompt=lmk.get("query_prompt", files.query_prompt),
        document_prompt=lmk.get("document_prompt", files.document_prompt),
        dense=files.dense,
    )


def _from_modules(directory: Path, modules: list[dict[str, Any]]) -> ModelFiles:
    transformer = directory
    settings: dict[str, Any] = {}
    pooling: Pooling | None = None
    pool_prompt = True
    dense: list[DenseFiles] = []
    for module in modules:
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        path = _inside(directory, str(module.get("path", "")))
        if kind == "Transformer":
            transformer = path
            settings = _read_json(path / "sentence_bert_config.json", optional=True) or {}
        elif kind == "Pooling":
            config = _read_json(path / "config.json")
            pooling, pool_prompt = _pooling(path, config), bool(config.get("include_prompt", True))
        elif kind == "Dense":
            dense.append(_dense(path))
        elif kind != "Normalize":
            raise ModelError(
                f"{directory / 'modules.json'} names the module {module.get('type')!r}, which is "
                "not supported; supported are Transformer, Pooling, Dense and Normalize"
            )
    prompts = _prompts(directory)
    return ModelFiles(
        transformer=transformer,
        pooling=pooling,
        max_tokens=settings.get("max_seq_length"),
        lower_case=bool(settings.get("do_lower_case", False)),
        pool_prompt=pool_prompt,
        query_prompt=prompts[0],
        document_prompt=prompts[1],
        dense=tuple(dense),
    )


def _pooling(path: Path, config: dict[str, Any]) -> Pooling:
    saved = config.get("pooling_mode")
    if saved is None:
        active = [name for key, name in _ST_LEGACY.items() if config.get(key)]
        saved = active[0] if len(active) == 1 else active or "mean"
    if isinstance(saved, list) and len(saved) == 1:
        saved = saved[0]
    if not isinstance(saved, str) or saved not in _ST_POOLING:
        raise ModelError(
            f"{path / 'config.json'} asks for the pooling {saved!r}, which is not supported; "
            f"supported are {', '.join(_ST_POOLING)}. Pass pooling= to use another on purpose "
            "after removing the file's entry"
        )
    return _ST_POOLING[saved]  # type: ignore[return-value]


def _dense(path: Path) -> DenseFiles:
    config = _read_json(path / "config.json")
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = _ACTIVATIONS.get(name.rsplit(".", 1)[-1])
    if activation is None or config.get("use_residual"):
        raise ModelError(
            f"{path / 'config.json'}: a Dense module with activation {name!r}"
            f"{' and a residual' if config.get('use_residual') else ''} is not supported; "
            f"supported are {', '.join(_ACTIVATIONS)} without a residual"
        )
    return DenseFiles(path, activation)


def _prompts(directory: Path) -> tuple[str | None, str | None]:
    """The saved query and document prompts, by sentence-transformers' names for them."""
    config = _read_json(directory / "config_sentence_transformers.json", optional=True) or {}
    prompts = config.get("prompts") or {}
    default = prompts.get(config.get("default_prompt_name"))
    query = prompts.get("query", default)
    names = [name for name in ("document", "passage", "corpus") if name in prompts]
    return query or None, (prompts[names[0]] if names else default) or None


def _inside(directory: Path, relative: str) -> Path:
    """A module's folder; one that leads out of the model directory is refused."""
    path = (directory / relative).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise ModelError(f"{directory / 'modules.json'} points outside the model: {relative!r}")
    return path


def _read_json(path: Path, *, optional: bool = False) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if optional:
            return None
        raise ModelError(f"the model directory lacks {path}") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
