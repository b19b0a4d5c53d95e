"""What makes vectors comparable (the space), and what makes them the same (the fingerprint)."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.errors import ModelError

ALGORITHM_VERSION = 2
"""Raised when a change to this package changes the vectors of the same text."""

# Facts of the file, not of the function that the weights compute.
_VOLATILE = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}
_VOLATILE |= {"auto_map", "use_cache", "return_dict", "output_attentions", "output_hidden_states"}


@dataclass(frozen=True, slots=True)
class Space:
    """The parts of a vector space's identity, each a short digest or value.

    Two encoders with equal parts give comparable vectors. The parts are stored beside vectors so
    that a mismatch can be explained.
    """

    weights: str
    architecture: str
    tokenizer: str
    pooling: str
    dim: int
    normalize: bool

    def to_dict(self) -> dict[str, Any]:
        """The parts by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def digest(self) -> str:
        """One hex string for all parts."""
        return digest_of(self.to_dict())


def digest_of(value: Any) -> str:
    """32 hex digits of sha256 over canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def weights_digest(directories: list[Path]) -> str:
    """Digest of every tensor in the directories' safetensors files, by name, type, shape, bytes.

    Independent of how tensors are spread over files and of the files' own metadata.
    """
    digest = hashlib.sha256()
    for directory in directories:
        tensors = sorted(_tensors(directory))
        if not tensors:
            raise ModelError(f"{directory} holds no .safetensors weights")
        for name, described, tensor_digest in tensors:
            digest.update(f"{name}\0{described}\0{tensor_digest}\n".encode())
    return digest.hexdigest()[:32]


def _tensors(directory: Path) -> Iterator[tuple[str, str, str]]:
    """(name, "type shape", sha256) of each tensor; read straight from the file, block by block."""
    for path in directory.glob("*.safetensors"):
        try:
            yield from _tensors_of(path)
        except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{path} is damaged ({error}); get the model's files again") from error


def _tensors_of(path: Path) -> Iterator[tuple[str, str, str]]:
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > path.stat().st_size:
            raise ValueError(f"its header claims {size} bytes")
        header = json.loads(file.read(size))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            file.seek(8 + size + first)
            digest = hashlib.sha256()
            left = last - first
            while left > 0 and (block := file.read(min(left, 1 << 20))):
                digest.update(block)
                left -= len(block)
            if left:
                raise ValueError(f"it ends within the tensor {name!r}")
            yield name, f"{entry['dtype']} {entry['shape']}", digest.hexdigest()


def config_digest(directory: Path) -> str:
    """Digest of what config.json says about the computation."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    return digest_of({key: value for key, value in config.items() if key not in _VOLATILE})


# What normalisers and pre-tokenisers treat differently: case, accents, widths, white space,
# digits, punctuation, scripts, emoji, control characters, the spelling of special tokens.
_PROBES = (
    "The Quick brown fox can't JUMP over 12,345.67 lazy dogs' e-mail addresses; isn't it? yes!",
    "  two  spaces\tand\n\nlines \r\n tail ",
    "Café naïve Ångström straße İstanbul e\u0301 ﬁn ＡＢ ½ ①",
    "四世同堂。こんにちは 한국어 สวัสดี Привет שלום مرحبا नमस्ते",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f600 — “quoted” … \u00ad\u200b\x07",
    "[SEP] </s> <|endoftext|>",
    "def f(x_1): return {'a': x_1 ** 2}  # https://example.org/a?b=c&d=%20",
)


def tokenizer_digest(
    tokenizer_json: str, encode: Callable[[str], Iterable[Any]], frame: dict[str, Any]
) -> str:
    """Digest of what the tokenizer does: its vocabulary, its ids for probe texts, the frame.

    Not of how it is written down: libraries write the same tokenizer differently from one
    version to the next, and a collection must open after an upgrade.
    """
    model = json.loads(tokenizer_json)["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model.get("merges") or ()]
    ids = [[int(token) for token in encode(probe)] for probe in _PROBES]
    return digest_of([model.get("type"), model.get("vocab"), merges, ids, frame])
