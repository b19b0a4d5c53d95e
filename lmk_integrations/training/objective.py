"""What an adaptation learns: four aims, on one pass of the student over a batch of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from lmk_integrations.core.batching import token_budget_batches
from lmk_integrations.core.landmarks import insert_landmarks
from lmk_integrations.core.windows import plan_windows
from lmk_integrations.encoder.backends.torch import offset_positions
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.training.adapt_settings import AdaptSettings
from lmk_integrations.training.pieces import Piece
from lmk_integrations.training.teacher import Targets

_TOKEN_BUDGET = 8192
_NEVER = -1e4


@dataclass(frozen=True, slots=True)
class StudentWindow:
    """ids: (length,) input ids; at: (n_landmarks,) positions; order: their place in the batch."""

    ids: np.ndarray
    at: np.ndarray
    order: np.ndarray


class StudentLayout:
    """Lays texts out as `LMKEncoder` will: prefix, prompt, chunks and landmarks, in windows."""

    def __init__(self, opened: OpenModel) -> None:
        tokenizer = opened.tokenizer
        assert tokenizer.landmark_id is not None
        self.prefix = opened.document_prefix
        self.capacity = opened.max_tokens - len(self.prefix)
        self._landmark_id = tokenizer.landmark_id

    def windows(self, pieces: Sequence[Piece]) -> list[StudentWindow]:
        """The windows of a batch of texts."""
        found: list[StudentWindow] = []
        done = 0
        for piece in pieces:
            bounds = piece.bounds
            for window in plan_windows(np.diff(bounds) + 1, self.capacity):
                own = bounds[window.first : window.stop + 1]
                ids, at = insert_landmarks(piece.ids, own, self._landmark_id, self.prefix)
                found.append(StudentWindow(ids, at, done + np.arange(window.first, window.stop)))
            done += len(bounds) - 1
        return found


class Objective(torch.nn.Module):
    """The student and what it is trained for.

    Of a batch it returns the weighted sum of
    text: 1 - cosine of each text's vector (the mean of its landmarks) to the base's;
    landmark: 1 - cosine of each landmark to its blended target;
    find: of all texts, the one that a chunk (embedded alone by the base) is from, by the texts'
        vectors, against those of past steps too;
    part: the same by the best landmark of each text other than the chunk's own.
    """

    memory: torch.Tensor
    filled: torch.Tensor

    def __init__(
        self, student: Any, opened: OpenModel, settings: AdaptSettings, memory: int | None = None
    ) -> None:
        super().__init__()
        self.student = student
        self._opened = opened
        self._settings = settings
        self._offset = offset_positions(student.config)
        n_embeddings = student.get_input_embeddings().weight.shape[0]
        self._pad_id = opened.tokenizer.pad_id if opened.tokenizer.pad_id < n_embeddings else 0
        memory = settings.memory if memory is None else memory
        # Part of the checkpoints, so that a resumed training goes on exactly.
        self.register_buffer("memory", torch.zeros(memory, opened.dim))
        self.register_buffer("filled", torch.zeros(1, dtype=torch.int64))
        self.parts: dict[str, float] = {}

    def forget(self) -> None:
        """Empty the memory, as at the start of a training."""
        self.memory.zero_()
        self.filled.zero_()

    def train(self, mode: bool = True) -> Objective:
        """Dropout stays off: the targets hold no noise to be robust against."""
        super().train(mode)
        self.student.eval()
        return self

    def forward(self, windows: list[StudentWindow], targets: Targets) -> torch.Tensor:
        """The loss of one batch; `parts` holds its terms afterwards."""
        rows = self._rows(windows, len(targets.owner))
        # Scores are divided by the temperature: in bfloat16 their rounding would be the loss.
        with torch.autocast(rows.device.type, enabled=False):
            return self._loss(rows, targets)

    def _loss(self, rows: torch.Tensor, targets: Targets) -> torch.Tensor:
        settings = self._settings
        device = rows.device
        owner = torch.from_numpy(targets.owner).to(device)
        n_texts = len(targets.text)
        text = rows.new_zeros(n_texts, rows.shape[1]).index_add(0, owner, rows)
        text = functional.normalize(text, dim=1)
        landmark = functional.normalize(rows, dim=1)
        wanted_text = torch.from_numpy(targets.text).to(device)
        wanted_landmark = torch.from_numpy(targets.landmark).to(device)
        chunk = torch.from_numpy(targets.chunk).to(device)
        counts = torch.bincount(owner, minlength=n_texts)
        share = counts.float().sqrt()  # the mean of many landmarks is the harder to bring right
        terms = {
            "text": ((1 - (text * wanted_text).sum(1)) * share).sum() / share.sum(),
            "landmark": (1 - (landmark * wanted_landmark).sum(1)).mean(),
        }
        weights = {"text": settings.text_weight, "landmark": settings.landmark_weight}
        asked = torch.nonzero(counts[owner] > 1).squeeze(1)  # a lone chunk is its text
        if len(asked):
            share = 1 / counts[owner[asked]].float().sqrt()
            share = share / share.sum()
            terms["find"] = self._find(chunk[asked], owner[asked], text, share)
            terms["part"] = self._part(chunk, landmark, owner, asked, n_texts, share)
            weights |= {"find": settings.find_weight, "part": settings.part_weight}
        if self.training:
            self._remember(text.detach()[counts > 1])
        self.parts = {name: float(term.detach()) for name, term in terms.items()}
        return torch.stack([weights[name] * term for name, term in terms.items()]).sum()

    def _rows(self, windows: list[StudentWindow], n_rows: int) -> torch.Tensor:
        """(n_rows, dim) float32 landmark states, after the base's own Dense modules if any."""
        device = self.memory.device
        taken, order = [], []
        lengths = [len(window.ids) for window in windows]
        for batch in token_budget_batches(lengths, _TOKEN_BUDGET):
            group = [windows[i] for i in batch]
            longest = max(len(window.ids) for window in group)
            ids = np.full((len(group), longest), self._pad_id, np.int64)
            mask = np.zeros((len(group), longest), np.int64)
            for row, window in enumerate(group):
                ids[row, : len(window.ids)] = window.ids
                mask[row, : len(window.ids)] = 1
            arguments = {
                "input_ids": torch.from_numpy(ids).to(device),
                "attention_mask": torch.from_numpy(mask).to(device),
            }
            if self._offset is not None:
                steps = torch.arange(longest, device=device) + self._offset
                arguments["position_ids"] = steps[None, :].expand(len(group), -1)
            states = self.student(**arguments).last_hidden_state
            row_of = np.repeat(np.arange(len(group)), [len(window.at) for window in group])
            at = np.concatenate([window.at for window in group])
            where = torch.from_numpy(row_of).to(device), torch.from_numpy(at).to(device)
            taken.append(states[where].float())
            order += [window.order for window in group]
        index = torch.from_numpy(np.argsort(np.concatenate(order))).to(device)
        assert len(index) == n_rows
        return self._project(torch.cat(taken)[index])

    def _project(self, rows: torch.Tensor) -> torch.Tensor:
        for dense in self._opened.dense:
            weight = torch.from_numpy(dense.weight).to(rows.device)
            rows = rows @ weight.T + torch.from_numpy(dense.bias).to(rows.device)
            if dense.activation != "identity":
                rows = getattr(functional, dense.activation)(rows)
        return rows

    def _find(
        self, chunk: torch.Tensor, owner: torch.Tensor, text: torch.Tensor, share: torch.Tensor
    ) -> torch.Tensor:
        past = self.memory[: min(int(self.filled), len(self.memory))]
        scores = chunk @ torch.cat([text, past]).T / self._settings.temperature
        return (functional.cross_entropy(scores, owner, reduction="none") * share).sum()

    def _part(
        self,
        chunk: torch.Tensor,
        landmark: torch.Tensor,
        owner: torch.Tensor,
        asked: torch.Tensor,
        n_texts: int,
        share: torch.Tensor,
    ) -> torch.Tensor:
        scores = chunk[asked] @ landmark.T / self._settings.temperature
        scores = scores.scatter(1, asked[:, None], _NEVER)  # its own landmark would be too easy
        best = scores.new_full((len(asked), n_texts), _NEVER)
        best = best.scatter_reduce(1, owner[None, :].expand(len(asked), -1), scores, "amax")
        return (functional.cross_entropy(best, owner[asked], reduction="none") * share).sum()

    def _remember(self, text: torch.Tensor) -> None:
        """Put text vectors in the place of the oldest."""
        if len(self.memory) == 0 or len(text) == 0:
            return
        text = text[: len(self.memory)]
        begin = int(self.filled)
        at = (torch.arange(len(text), device=text.device) + begin) % len(self.memory)
        self.memory[at] = text.to(self.memory.dtype)
        self.filled += len(text)
