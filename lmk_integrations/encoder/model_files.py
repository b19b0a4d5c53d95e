"""What a model directory says of itself: lmk_config.json, else its sentence-transformers files.

Nothing here runs code from the directory: module classes are recognised by name, never imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.core.pooling import POOLINGS, Pooling
from lmk_integrations.encoder.json_files import read_json, text_of, whole_of
from lmk_integrations.encoder.landmark_files import (
    LANDMARK_TRANSFORMER,
    OWN_STYLE,
    LandmarkStyle,
    read_landmark_modules,
    saved_style,
)
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
    "landmarks",
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
    "pooling_mode_lmk": "lmk",
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
    landmarks: LandmarkStyle = OWN_STYLE
    granularity: int | None = None
    max_tokens: int | None = None
    lower_case: bool = False
    pool_prompt: bool = True
    query_prompt: str | None = None
    document_prompt: str | None = None
    dense: tuple[DenseFiles, ...] = ()


def read_model_files(directory: Path) -> ModelFiles:
    """Read a model directory. Raises ModelError for a module or pooling that is not known."""
    modules = read_json(directory / "modules.json", list, optional=True)
    files = _from_modules(directory, modules) if modules else ModelFiles(directory)
    lmk = read_json(directory / LMK_CONFIG, dict, optional=True)
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
        landmarks=saved_style(where, lmk),
        granularity=whole_of(where, lmk, "granularity"),
        max_tokens=whole_of(where, lmk, "max_tokens"),
        lower_case=files.lower_case,
        pool_prompt=files.pool_prompt,
        query_prompt=text_of(where, lmk, "query_prompt", files.query_prompt),
        document_prompt=text_of(where, lmk, "document_prompt", files.document_prompt),
        dense=files.dense,
    )


def _from_modules(directory: Path, modules: list[dict[str, Any]]) -> ModelFiles:
    folders = _module_folders(directory, modules)
    kind, transformer = folders[0]
    settings = read_json(transformer / "sentence_bert_config.json", dict, optional=True) or {}
    pooling_at = next((path for kind, path in folders if kind == "Pooling"), None)
    pooling: Pooling | None = None
    granularity: int | None = None
    style, pool_prompt = OWN_STYLE, True
    if pooling_at is not None:
        config = read_json(pooling_at / "config.json", dict)
        pool_prompt = bool(config.get("include_prompt", True))
        if kind == LANDMARK_TRANSFORMER and _saved_mode(config) == "lmk":
            pooling = "lmk"
            style, granularity = read_landmark_modules(transformer, pooling_at)
        else:
            pooling = _pooling(pooling_at, config)
    if kind == LANDMARK_TRANSFORMER and pooling != "lmk":
        raise ModelError(
            f"{directory / 'modules.json'} chains {LANDMARK_TRANSFORMER} and the pooling "
            f"{pooling!r}, which is not supported; supported is pooling_mode_lmk"
        )
    prompts = _prompts(directory)
    return ModelFiles(
        transformer=transformer,
        pooling=pooling,
        landmark_trained=pooling == "lmk",
        landmarks=style,
        granularity=granularity,
        max_tokens=whole_of(transformer / "sentence_bert_config.json", settings, "max_seq_length"),
        lower_case=bool(settings.get("do_lower_case", False)),
        pool_prompt=pool_prompt,
        query_prompt=prompts[0],
        document_prompt=prompts[1],
        dense=tuple(_dense(path) for kind, path in folders if kind == "Dense"),
    )


def _module_folders(directory: Path, modules: list[Any]) -> list[tuple[str, Path]]:
    """(kind, folder) of each module, the transformer first.

    Only sentence-transformers' own classes; and its LandmarkTransformer, which is known by its
    name alone, for no release has it: whoever saved one had a copy of its file.
    """
    where = directory / "modules.json"
    found: list[tuple[str, Path]] = []
    for module in modules:
        if not isinstance(module, dict):
            raise ModelError(f"{where} holds {module!r}, which describes no module")
        name = str(module.get("type"))
        kind = name.rsplit(".", 1)[-1]
        own = name.startswith("sentence_transformers.") and kind in _MODULES
        if not own and kind != LANDMARK_TRANSFORMER:
            raise ModelError(
                f"{where} names the module {name!r}, which is not supported; supported are "
                f"sentence_transformers' {', '.join(_MODULES)}, {LANDMARK_TRANSFORMER}"
            )
        found.append((kind, _inside(directory, str(module.get("path", "")))))
    kinds = ["Transformer" if kind == LANDMARK_TRANSFORMER else kind for kind, _ in found]
    ordered = sorted(kinds, key=_MODULES.index) == kinds
    if not ordered or kinds.count("Transformer") != 1 or kinds.count("Pooling") > 1:
        raise ModelError(
            f"{where} chains {' > '.join(kinds)}, which is not supported; supported is one "
            "Transformer, then Pooling, Dense, Normalize"
        )
    return found


def _pooling(path: Path, config: dict[str, Any]) -> Pooling:
    saved = _saved_mode(config)
    if not isinstance(saved, str) or saved not in _ST_POOLING:
        raise ModelError(
            f"{path / 'config.json'} asks for the pooling {saved!r}, which is not supported; "
            f"supported are {', '.join(_ST_POOLING)}. Pass pooling= to use another on purpose "
            "after removing the file's entry"
        )
    return _ST_POOLING[saved]  # type: ignore[return-value]


def _saved_mode(config: dict[str, Any]) -> Any:
    """The pooling a Pooling asks for, by its newer name; a list where it is not one alone."""
    saved = config.get("pooling_mode")
    if saved is None:
        active = [name for key, name in _ST_LEGACY.items() if config.get(key)]
        saved = active[0] if len(active) == 1 else active or "mean"
    return saved[0] if isinstance(saved, list) and len(saved) == 1 else saved


def _dense(path: Path) -> DenseFiles:
    config = read_json(path / "config.json", dict)
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
    config = read_json(where, dict, optional=True) or {}
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise ModelError(f"{where} holds the prompts {prompts!r}, which must be names and texts")
    fallback = str(config.get("default_prompt_name"))
    names = [name for name in ("document", "passage", "corpus") if name in prompts]
    default = text_of(where, prompts, fallback)
    query = text_of(where, prompts, "query", default)
    document = text_of(where, prompts, names[0]) if names else default
    return query or None, document or None


def _inside(directory: Path, relative: str) -> Path:
    """A module's folder; one that leads out of the model directory is refused."""
    path = (directory / relative).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise ModelError(f"{directory / 'modules.json'} points outside the model: {relative!r}")
    return path
