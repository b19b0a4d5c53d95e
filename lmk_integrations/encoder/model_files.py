"""What a model directory says of itself: lmk_config.json, else its sentence-transformers files.

Nothing here runs code from the directory: module classes are recognised by name, never imported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.core.pooling import POOLINGS, Pooling
from lmk_integrations.encoder.settings import is_unicode
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
_MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
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
    modules = _read_json(directory / "modules.json", list, optional=True)
    files = _from_modules(directory, modules) if modules else ModelFiles(directory)
    lmk = _read_json(directory / LMK_CONFIG, dict, optional=True)
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
    where = directory / LMK_CONFIG
    return ModelFiles(
        transformer=files.transformer,
        pooling=pooling,
        landmark_trained=pooling == "lmk",
        granularity=_whole(where, lmk, "granularity"),
        max_tokens=_whole(where, lmk, "max_tokens"),
        lower_case=files.lower_case,
        pool_prompt=files.pool_prompt,
        query_prompt=_text(where, lmk, "query_prompt", files.query_prompt),
        document_prompt=_text(where, lmk, "document_prompt", files.document_prompt),
        dense=files.dense,
    )


def _from_modules(directory: Path, modules: list[dict[str, Any]]) -> ModelFiles:
    transformer = directory
    settings: dict[str, Any] = {}
    pooling: Pooling | None = None
    pool_prompt = True
    dense: list[DenseFiles] = []
    for kind, path in _module_folders(directory, modules):
        if kind == "Transformer":
            transformer = path
            settings = _read_json(path / "sentence_bert_config.json", dict, optional=True) or {}
        elif kind == "Pooling":
            config = _read_json(path / "config.json", dict)
            pooling, pool_prompt = _pooling(path, config), bool(config.get("include_prompt", True))
        elif kind == "Dense":
            dense.append(_dense(path))
    prompts = _prompts(directory)
    return ModelFiles(
        transformer=transformer,
        pooling=pooling,
        max_tokens=_whole(transformer / "sentence_bert_config.json", settings, "max_seq_length"),
        lower_case=bool(settings.get("do_lower_case", False)),
        pool_prompt=pool_prompt,
        query_prompt=prompts[0],
        document_prompt=prompts[1],
        dense=tuple(dense),
    )


def _module_folders(directory: Path, modules: list[Any]) -> list[tuple[str, Path]]:
    """(kind, folder) of each module. Only sentence-transformers' own classes, in their order."""
    where = directory / "modules.json"
    found: list[tuple[str, Path]] = []
    for module in modules:
        if not isinstance(module, dict):
            raise ModelError(f"{where} holds {module!r}, which describes no module")
        name = module.get("type")
        kind = str(name).rsplit(".", 1)[-1]
        if not str(name).startswith("sentence_transformers.") or kind not in _MODULES:
            raise ModelError(
                f"{where} names the module {name!r}, which is not supported; supported are "
                f"sentence_transformers' {', '.join(_MODULES)}"
            )
        found.append((kind, _inside(directory, str(module.get("path", "")))))
    kinds = [kind for kind, _ in found]
    ordered = sorted(kinds, key=_MODULES.index) == kinds
    if not ordered or kinds.count("Transformer") != 1 or kinds.count("Pooling") > 1:
        raise ModelError(
            f"{where} chains {' > '.join(kinds)}, which is not supported; supported is one "
            "Transformer, then Pooling, Dense, Normalize"
        )
    return found


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
    config = _read_json(path / "config.json", dict)
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
    where = directory / "config_sentence_transformers.json"
    config = _read_json(where, dict, optional=True) or {}
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise ModelError(f"{where} holds the prompts {prompts!r}, which must be names and texts")
    fallback = str(config.get("default_prompt_name"))
    names = [name for name in ("document", "passage", "corpus") if name in prompts]
    default = _text(where, prompts, fallback)
    query = _text(where, prompts, "query", default)
    document = _text(where, prompts, names[0]) if names else default
    return query or None, document or None


def _text(path: Path, values: dict[str, Any], name: str, default: str | None = None) -> str | None:
    value = values.get(name, default)
    if value is not None and not (isinstance(value, str) and is_unicode(value)):
        raise ModelError(f"{path}: {name} must be a text, not {value!r}")
    return value


def _whole(path: Path, values: dict[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ModelError(f"{path}: {name} must be a whole number above 0, not {value!r}")
    return value


def _inside(directory: Path, relative: str) -> Path:
    """A module's folder; one that leads out of the model directory is refused."""
    path = (directory / relative).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise ModelError(f"{directory / 'modules.json'} points outside the model: {relative!r}")
    return path


def _read_json(path: Path, kind: type, *, optional: bool = False) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if optional:
            return None
        raise ModelError(f"the model directory lacks {path}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, kind):
        raise ModelError(f"{path} must hold a JSON {'array' if kind is list else 'object'}")
    return value
