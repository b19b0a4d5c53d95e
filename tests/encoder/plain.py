"""The same vectors computed plainly: one text at a time, no batch, no padding, no package code.

Written from the documents (the paper's section 3, the docstrings of windows and pooling) and not
from the code under test. The special tokens of each family are spelled out by hand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

# family: tokens before a text, tokens after it, landmark
FRAMES = {
    "bert": (["[CLS]"], ["[SEP]"], "[SEP]"),
    "distilbert": (["[CLS]"], ["[SEP]"], "[SEP]"),
    "mpnet": (["<s>"], ["</s>"], "</s>"),
    "roberta": (["<s>"], ["</s>"], "</s>"),
    "xlm-roberta": (["<s>"], ["</s>"], "</s>"),
    "deberta-v2": (["[CLS]"], ["[SEP]"], "[SEP]"),
    "modernbert": (["[CLS]"], ["[SEP]"], "[SEP]"),
    "qwen3": ([], [], "<|endoftext|>"),
    "llama": (["<|begin_of_text|>"], [], "<|end_of_text|>"),
}


@dataclass
class Plain:
    """What one text gives: its vector, (n, dim) rows, and the number of windows."""

    vector: np.ndarray
    rows: np.ndarray
    n_windows: int


class PlainModel:
    """A model directory opened by transformers."""

    def __init__(self, kind: str, directory: Path, limit: int) -> None:
        self._model = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        before, after, landmark = FRAMES[kind]
        to_id = self.tokenizer.convert_tokens_to_ids
        self.before, self.after = [to_id(t) for t in before], [to_id(t) for t in after]
        self.landmark = to_id(landmark)
        self.limit = limit

    def states(self, ids: list[int]) -> np.ndarray:
        """(length, width) float64 states of one sequence."""
        with torch.no_grad():
            output = self._model(input_ids=torch.tensor([ids]))
        return output.last_hidden_state[0].double().numpy()

    def chunks(self, text: str, granularity: int) -> list[list[int]]:
        """The text's token ids in chunks; an empty text is one empty chunk."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [ids[i : i + granularity] for i in range(0, len(ids), granularity)] or [[]]

    def encode(self, text: str, pooling: str, granularity: int) -> Plain:
        """The whole text, over as many windows as it takes."""
        return self.encode_chunks(self.chunks(text, granularity), pooling)

    def encode_chunks(self, chunks: list[list[int]], pooling: str) -> Plain:
        """Chunks that share windows."""
        extra = 1 if pooling == "lmk" else 0
        capacity = self.limit - len(self.before) - (0 if extra else len(self.after))
        dealt = deal([len(chunk) + extra for chunk in chunks], capacity)
        windows = [chunks[a:b] for a, b in dealt]
        rows, texts, weights = [], [], []
        for window in windows:
            own, text, weight = self.window(window, pooling)
            rows += own
            texts.append(text)
            weights.append(weight)
        vector = np.average(texts, axis=0, weights=weights)
        return Plain(vector / np.linalg.norm(vector), np.stack(rows), len(windows))

    def window(self, chunks: list[list[int]], pooling: str) -> tuple[list, np.ndarray, float]:
        """The window's rows, its text vector, and what that counts."""
        if pooling == "lmk":
            ids, at = list(self.before), []
            for chunk in chunks:
                ids += [*chunk, self.landmark]
                at.append(len(ids) - 1)
            states = self.states(ids)
            rows = [states[i] for i in at]
            return rows, np.mean(rows, axis=0), len(rows)
        ids = [*self.before, *[token for chunk in chunks for token in chunk], *self.after]
        states = self.states(ids or [self.landmark])
        edges = len(self.before) + np.cumsum([0, *[len(chunk) for chunk in chunks]])
        n_tokens = int(edges[-1] - edges[0])
        if pooling == "mean":
            edges[0], edges[-1] = 0, len(states)
        elif n_tokens == 0:
            edges = np.array([0, len(states)])
        rows = [states[a:b].mean(axis=0) for a, b in itertools.pairwise(edges)]
        if pooling == "mean":
            return rows, states.mean(axis=0), len(states)
        return rows, states[0 if pooling == "cls" else -1], max(n_tokens, 1)


def deal(costs: list[int], capacity: int) -> list[tuple[int, int]]:
    """The window rule: the fewest windows, each as near to an even share as chunks allow."""

    def fewest(rest: list[int]) -> int:
        windows = filled = 0
        for cost in rest:
            if not windows or filled + cost > capacity:
                windows, filled = windows + 1, 0
            filled += cost
        return windows

    dealt, first = [], 0
    for left in range(fewest(costs), 0, -1):
        share = sum(costs[first:]) / left
        possible = [
            stop
            for stop in range(first + 1, len(costs) + 1)
            if sum(costs[first:stop]) <= capacity and fewest(costs[stop:]) <= left - 1
        ]
        stop = min(possible, key=lambda stop: abs(sum(costs[first:stop]) - share))
        dealt.append((first, stop))
        first = stop
    return dealt


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of two vectors."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
