"""The loss of a contrastive training, of sentence-transformers' parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor

from lmk_integrations.errors import ConfigError
from lmk_integrations.training.settings import TrainSettings


class ContrastiveWithTeacher(torch.nn.Module):
    """The contrastive loss and the loss against a teacher's scores, of one forward pass.

    Student scores are cosines over the temperature, in both. labels: (batch, 1 + n_negatives)
    teacher scores on that scale.
    """

    def __init__(self, model: Any, settings: TrainSettings) -> None:
        super().__init__()
        self.model = model
        scale = 1 / settings.temperature

        def score(queries: Tensor, texts: Tensor) -> Tensor:
            return pairwise_cos_sim(queries, texts) * scale

        self.contrastive = losses.MultipleNegativesRankingLoss(model, scale=scale)
        self.teacher: Any
        if settings.teacher_scores == "kl":
            self.teacher = losses.DistillKLDivLoss(model, similarity_fct=score, temperature=1.0)
        else:
            self.teacher = losses.MarginMSELoss(model, similarity_fct=score)
        self.weight = settings.teacher_weight

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """features: one dict per column, query first. Returns the loss, ()."""
        vectors = [self.model(features)["sentence_embedding"] for features in sentence_features]
        contrastive = self.contrastive.compute_loss_from_embeddings(vectors, labels)
        taught: Tensor = self.teacher.compute_loss_from_embeddings(vectors, labels)
        return contrastive + self.weight * taught


def build_loss(model: Any, settings: TrainSettings) -> torch.nn.Module:
    """The loss that the settings ask for. Raises ConfigError for a dimension the model lacks."""
    scale = 1 / settings.temperature
    loss: torch.nn.Module
    if settings.teacher_scores is not None:
        loss = ContrastiveWithTeacher(model, settings)
    elif settings.mini_batch is not None:
        loss = losses.CachedMultipleNegativesRankingLoss(
            model, scale=scale, mini_batch_size=settings.mini_batch
        )
    else:
        loss = losses.MultipleNegativesRankingLoss(model, scale=scale)
    if not settings.matryoshka:
        return loss
    full = int(model.get_embedding_dimension())
    if max(settings.matryoshka) > full:
        raise ConfigError(
            f"matryoshka={max(settings.matryoshka)} exceeds the model's {full} dimensions"
        )
    dims = sorted({full, *settings.matryoshka}, reverse=True)
    return losses.MatryoshkaLoss(model, loss, matryoshka_dims=dims)
