"""Directories as sentence-transformers' landmark modules leave them, and what those compute.

No release has the modules. Written from reading their pull request (huggingface/sentence-
transformers #3642): nothing here is shared with the code under test.
"""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import torch
from tiny_models import WIDTH
from transformers import AutoModel, AutoTokenizer

INTERVAL, WINDOW = 8, 96
TYPE = "sentence_transformers.models.LandmarkTransformer"
LEGACY = {
    "word_embedding_dimension": WIDTH,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": False,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_sqrt_len_tokens": False,
    "pooling_mode_weightedmean_tokens": False,
    "pooling_mode_lasttoken": False,
    "pooling_mode_lmk": True,
    "include_prompt": True,
}


def landmark_of(directory):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    found = tokenizer.sep_token_id
    return tokenizer.eos_token_id if found is None else found


def save_modules(
    source, directory, *, landmark=None, kind=TYPE, pooling=None, prompts=None, **settings
):
    """What `SentenceTransformer([LandmarkTransformer, Pooling, Normalize]).save` would leave."""
    shutil.copytree(source, directory, dirs_exist_ok=True)
    landmark = landmark_of(source) if landmark is None else landmark
    parts = [("", kind), ("1_Pooling", "sentence_transformers.models.Pooling")]
    parts.append(("2_Normalize", "sentence_transformers.models.Normalize"))
    listed = [
        {"idx": place, "name": str(place), "path": path, "type": name}
        for place, (path, name) in enumerate(parts)
    ]
    (directory / "modules.json").write_text(json.dumps(listed))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    config = LEGACY | {"lmk_token_id": landmark} if pooling is None else pooling
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(config))
    saved = {
        "max_seq_length": WINDOW,
        "do_lower_case": False,
        "landmark_interval": INTERVAL,
        "train_landmark_interval": [4, 8, 16],
        "lmk_token_id": landmark,
    } | settings
    saved = {name: value for name, value in saved.items() if value != "absent"}
    (directory / "sentence_bert_config.json").write_text(json.dumps(saved))
    if prompts is not None:
        (directory / "config_sentence_transformers.json").write_text(
            json.dumps({"prompts": prompts, "default_prompt_name": None})
        )
    return directory


class Reference:
    """Their modules: texts are cut at ``max_seq_length``.

    own_pad: the mask comes from the lengths. Theirs comes from the ids, so that PAD with the
    landmark's id masks every landmark, which is the one thing not to be repeated.
    """

    def __init__(self, directory, *, own_pad=False):
        saved = json.loads((directory / "sentence_bert_config.json").read_text())
        self.interval, self.most = saved["landmark_interval"], saved["max_seq_length"]
        self.landmark, self.own_pad = saved["lmk_token_id"], own_pad
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.tokenizer.backend_tokenizer.no_padding()
        self.tokenizer.backend_tokenizer.no_truncation()
        self.model = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()

    def ids(self, text):
        """Special tokens, then chunk after chunk with its landmark, then special tokens."""
        read = self.tokenizer(text.strip())["input_ids"]
        if not self.own_pad:
            read = [token for token in read if token != self.tokenizer.pad_token_id]
        special = self.tokenizer.all_special_ids
        before = list(itertools.takewhile(lambda token: token in special, read))
        rest = read[len(before) :]
        after = list(itertools.takewhile(lambda token: token in special, reversed(rest)))[::-1]
        inner = rest[: len(rest) - len(after)]
        if not inner:
            return [*before, self.landmark, *after][: self.most]
        body = []
        for start in range(0, len(inner), self.interval):
            body += [*inner[start : start + self.interval], self.landmark]
        cut = [*before, *body, *after][: self.most]
        if self.landmark not in cut:
            cut[-1] = self.landmark
        return cut

    def encode(self, texts):
        """(n, width) unit vectors, all texts in one padded batch."""
        rows = [self.ids(text) for text in texts]
        pad = self.tokenizer.pad_token_id
        width = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows])
        if self.own_pad:
            mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        else:
            mask = (ids != pad).long()
        with torch.no_grad():
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
        real = (mask == 1).numpy()
        at = (ids == self.landmark).numpy() & real
        at = np.where(at.any(1, keepdims=True), at, real)  # no landmark left: all tokens
        pooled = (states * at[..., None]).sum(1) / at.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
