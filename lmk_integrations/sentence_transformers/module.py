"""The input module: texts -> windows -> states -> one vector per text, with gradients."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule
from torch import Tensor

from lmk_integrations.core.batching import token_budget_batches
from lmk_integrations.encoder.backends.torch import quiet
from lmk_integrations.encoder.landmark_files import OWN_STYLE, LandmarkStyle
from lmk_integrations.encoder.model_write import copy_tokenizer
from lmk_integrations.encoder.plan import Layout
from lmk_integrations.encoder.settings import check_range
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import ConfigError
from lmk_integrations.sentence_transformers.pack import draw_granularities, pack_texts

log = logging.getLogger(__name__)

_POOLER = "pooler."


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLayout:
    """How texts are laid out while the module is in training mode; otherwise as the encoder does.

    granularities: one is drawn for each text; empty keeps the encoder's. text_tokens: read only
    the first so many tokens of a text; None reads all, in as many windows as it takes.
    """

    granularities: tuple[int, ...] = ()
    text_tokens: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for value in self.granularities:
            check_range("train_granularities", value, 1, 4096)
        if self.text_tokens is not None:
            check_range("train_text_tokens", self.text_tokens, 1, 1 << 24)


class LandmarkTransformer(InputModule):
    """A transformer that reads every text whole, in windows, and pools over all of them.

    model: a ``PreTrainedModel``. directory: where its tokenizer's files lie. layout: how texts are
    laid out, pooling included. most_positions: the model's longest window. positions_from: for
    models that count positions from another number than 0; None lets the model count.
    token_budget: padded positions that are run at once. lower_case: whether the tokenizer was made
    to, beyond what its files say. landmarks: how they stand, to be saved with the model.

    ``preprocess`` gives ``input_ids``, ``attention_mask``, ``window_ids`` and ``pool_weights``,
    each (n_texts, width) int64; ``forward`` adds ``sentence_embedding``, (n_texts, hidden).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        directory: Path,
        layout: Layout,
        *,
        training_layout: TrainingLayout,
        most_positions: int,
        pad_id: int,
        positions_from: int | None,
        token_budget: int,
        lower_case: bool = False,
        landmarks: LandmarkStyle = OWN_STYLE,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model = model
        self.layout = layout
        self.training_layout = training_layout
        self.token_budget = token_budget
        self.lower_case = lower_case
        self.landmarks = landmarks
        self._texts = tokenizer
        self._directory = directory
        self._most_positions = most_positions
        self._pad_id = pad_id
        self._positions_from = positions_from
        self._check_granularities()
        for name, parameter in model.named_parameters():
            if _POOLER in name:  # unused, and so without a gradient
                parameter.requires_grad_(False)

    @property
    def max_seq_length(self) -> int:
        """Positions of one window. Longer texts are not cut: they take several windows."""
        return self.layout.capacity

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        check_range("max_seq_length", value, 8, self._most_positions)
        self.layout = replace(self.layout, capacity=value)

    def get_embedding_dimension(self) -> int:
        """The width of the states."""
        return int(self.model.config.hidden_size)

    def preprocess(
        self,
        inputs: Sequence[Any],
        prompt: str | None = None,
        *,
        training: bool | None = None,
        **_: Any,
    ) -> dict[str, Tensor | Any]:
        """Texts -> features. The prompt stands at the start of every window.

        training: whether the training layout holds; None asks the module's mode. A trainer that
        fetches batches ahead passes it: one may be fetched while an evaluation has switched the
        mode.
        """
        layout = replace(self.layout, prompt=prompt or "")
        granularities = None
        most_tokens = None
        if self.training if training is None else training:
            most_tokens = self.training_layout.text_tokens
            choices = self.training_layout.granularities
            if choices:
                granularities = draw_granularities(inputs, choices, self.training_layout.seed)
        packed = pack_texts(
            inputs, self._texts, layout, granularities=granularities, most_tokens=most_tokens
        )
        return {
            "input_ids": torch.from_numpy(packed.ids),
            "attention_mask": torch.from_numpy(packed.mask),
            "window_ids": torch.from_numpy(packed.windows),
            "pool_weights": torch.from_numpy(packed.weights),
        }

    def forward(self, features: dict[str, Tensor | Any], **_: Any) -> dict[str, Tensor | Any]:
        """Run all windows, in batches of like length, and average what each text pools."""
        at = features["attention_mask"].nonzero(as_tuple=True)
        text = at[0]
        ids, windows, weights = (
            features[name][at] for name in ("input_ids", "window_ids", "pool_weights")
        )
        _, lengths = torch.unique_consecutive(
            torch.stack([text, windows]), dim=1, return_counts=True
        )
        starts = lengths.cumsum(0) - lengths
        texts = text[starts]
        n_texts = features["input_ids"].shape[0]
        pooled = torch.zeros(n_texts, self.get_embedding_dimension(), device=ids.device)
        for batch in token_budget_batches(lengths.tolist(), self.token_budget):
            chosen = torch.tensor(batch, device=ids.device)
            steps = torch.arange(int(lengths[chosen].max()), device=ids.device)
            inside = steps[None, :] < lengths[chosen, None]
            where = (starts[chosen, None] + steps[None, :]).clamp(max=len(ids) - 1)
            states = self._states(ids[where].where(inside, self._pad_id), inside)
            counted = (weights[where] * inside).nonzero(as_tuple=True)
            values = states[counted].float() * weights[where][counted][:, None]
            pooled = pooled.index_add(0, texts[chosen][counted[0]], values)
        totals = features["pool_weights"].sum(dim=1).clamp(min=1)
        features["sentence_embedding"] = (pooled / totals[:, None]).to(self.model.dtype)
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Weights (without the pooler's), config.json and the tokenizer."""
        weights = {
            name: tensor for name, tensor in self.model.state_dict().items() if _POOLER not in name
        }
        with quiet():
            self.model.save_pretrained(output_path, state_dict=weights)
        copy_tokenizer(self._directory, Path(output_path))

    def _states(self, ids: Tensor, inside: Tensor) -> Tensor:
        """(n, length) token ids -> (n, length, hidden)."""
        # The mask is made from the lengths, never from the ids: PAD may equal the landmark.
        arguments: dict[str, Any] = {"input_ids": ids, "attention_mask": inside.long()}
        if self._positions_from is not None:
            steps = torch.arange(ids.shape[1], device=ids.device)
            arguments["position_ids"] = (steps + self._positions_from)[None, :].expand_as(ids)
        if getattr(self.model.config, "use_cache", None):
            arguments["use_cache"] = False
        states: Tensor = self.model(**arguments).last_hidden_state
        return states

    def _check_granularities(self) -> None:
        layout = self.layout
        around = len(layout.prefix) + len(layout.suffix) + 1
        for value in self.training_layout.granularities:
            if value + around > layout.capacity:
                raise ConfigError(
                    f"train_granularities: {value} tokens per landmark do not fit a window of "
                    f"max_tokens={layout.capacity} beside {around} special tokens"
                )
