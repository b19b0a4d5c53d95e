"""Make landmark models: train, mine hard negatives, save. Needs the extra ``train``."""

from lmk_integrations.training.save import save_landmark_model

__all__ = ["save_landmark_model"]
