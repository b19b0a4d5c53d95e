"""LMKEncoder -> SentenceTransformer, and how one is saved."""

from __future__ import annotations

import logging
import shutil
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Module, Normalize
from torch import Tensor, nn

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.backends.torch import DTYPES, load_transformer, offset_positions
from lmk_integrations.encoder.dense import load_dense
from lmk_integrations.encoder.model_files import DenseFiles, read_model_files
from lmk_integrations.encoder.model_write import SavedSettings, write_settings
from lmk_integrations.encoder.positions import position_limit
from lmk_integrations.encoder.settings import check_choice
from lmk_integrations.sentence_transformers.module import LandmarkTransformer, TrainingLayout

log = logging.getLogger(__name__)

_DEFAULT_GRANULARITY = 32
_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "identity": nn.Identity,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "relu": nn.ReLU,
}


class Truncate(Module):
    """Keep the first dimensions of the text vectors (Matryoshka models)."""

    def __init__(self, dim: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dim = dim

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Tensor | Any]:
        """``sentence_embedding`` (n, more) -> (n, dim)."""
        features["sentence_embedding"] = features["sentence_embedding"][:, : self.dim]
        return features

    def get_embedding_dimension(self) -> int:
        """The dimensions kept."""
        return self.dim

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Nothing: `LMKEncoder` is told ``truncate_dim`` when it opens a model."""


class LandmarkSentenceTransformer(SentenceTransformer):
    """A SentenceTransformer whose directory, once saved, is opened by `LMKEncoder`.

    Made by `to_sentence_transformer`. Its modules.json names sentence-transformers' own classes
    only: the trainer resumes from its checkpoints without remote code.
    """

    def save(self, path: str, *args: Any, **kwargs: Any) -> None:
        """As `SentenceTransformer.save`, with lmk_config.json."""
        super().save(path, *args, **kwargs)
        first = self[0]
        if not isinstance(first, LandmarkTransformer):  # read back from a checkpoint
            return
        dense = []
        for place, module in enumerate(list(self)[1:], 1):
            folder = f"{place}_{type(module).__name__}"
            if isinstance(module, Dense):
                dense.append(folder)
            else:  # nothing is in it that the settings do not say
                shutil.rmtree(Path(path) / folder)
        granularity = first.layout.granularity
        if not isinstance(granularity, int):
            log.warning("granularity %r is not saved: open with granularity=...", granularity)
            granularity = _DEFAULT_GRANULARITY
        settings = SavedSettings(
            pooling=first.layout.pooling,
            hidden=first.get_embedding_dimension(),
            granularity=granularity,
            max_tokens=first.max_seq_length,
            trained_granularities=first.training_layout.granularities,
            query_prompt=self.prompts.get("query") or "",
            document_prompt=self.prompts.get("document") or "",
            lower_case=first.lower_case,
            pool_prompt=first.layout.pool_prompt,
            dense=tuple(dense),
            landmarks=first.landmarks,
        )
        write_settings(Path(path), settings)


def to_sentence_transformer(
    encoder: LMKEncoder,
    *,
    train_granularities: Sequence[int] = (),
    train_text_tokens: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    device: str | None = None,
) -> LandmarkSentenceTransformer:
    """The encoder's model as a SentenceTransformer, with weights of its own.

    ``encode_document`` and ``encode_query`` give the encoder's vectors, of texts of any length;
    ``encode`` gives them without a prompt. It works in sentence-transformers' trainer, losses and
    evaluators; ``save_pretrained`` writes a directory that `LMKEncoder` opens.

    train_granularities: in training mode one of these is drawn for every text; evaluation and
        ``encode`` use the encoder's granularity. Only with the pooling "lmk".
    train_text_tokens: in training mode read only the first so many tokens of a text.
    dtype: of the weights: "float32", "bfloat16" or "float16". device: None picks one.

    Raises ConfigError where a granularity does not fit the encoder's window.
    """
    check_choice("dtype", dtype, tuple(DTYPES))
    opened = encoder.model
    files = read_model_files(encoder.directory)
    model, config = load_transformer(files.transformer, DTYPES[dtype])
    n_embeddings = int(model.get_input_embeddings().weight.shape[0])
    pad_id = opened.tokenizer.pad_id
    _, positions = position_limit(files.transformer)
    transformer = LandmarkTransformer(
        model,
        opened.tokenizer,
        files.transformer,
        opened.layout("", None),
        training_layout=TrainingLayout(
            granularities=tuple(train_granularities) if opened.pooling == "lmk" else (),
            text_tokens=train_text_tokens,
            seed=seed,
        ),
        most_positions=positions,
        pad_id=pad_id if pad_id < n_embeddings else 0,  # masked in any case
        positions_from=offset_positions(config),
        token_budget=encoder.settings.token_budget,
        lower_case=files.lower_case,
        landmarks=files.landmarks,
    )
    # By name, so that the weights of a saved directory are those of the same modules: it may have
    # a Pooling at "1".
    modules: OrderedDict[str, nn.Module] = OrderedDict({"0": transformer})
    for place, dense in enumerate(files.dense, 2):
        modules[str(place)] = _dense(dense)
    last = 2 + len(files.dense)
    if encoder.settings.truncate_dim is not None:
        modules["truncate"] = Truncate(encoder.dim)
    if encoder.settings.normalize:
        modules[str(last)] = Normalize()
    return LandmarkSentenceTransformer(
        modules=modules,  # type: ignore[arg-type]  # its base takes names too
        device=device,
        prompts={"query": encoder.query_prompt, "document": encoder.document_prompt},
    )


def _dense(files: DenseFiles) -> Dense:
    """A Dense module of the model, trainable."""
    loaded = load_dense(files)
    outputs, inputs = loaded.weight.shape
    return Dense(
        inputs,
        outputs,
        activation_function=_ACTIVATIONS[loaded.activation](),
        init_weight=torch.from_numpy(loaded.weight.copy()),
        init_bias=torch.from_numpy(loaded.bias.copy()),
    )
