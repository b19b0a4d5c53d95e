"""Make landmark models: adapt, train, mine hard negatives, save. Needs the extra ``train``."""

from lmk_integrations.training.adapt import AdaptReport, adapt
from lmk_integrations.training.adapt_settings import AdaptSettings
from lmk_integrations.training.contrastive import TrainReport, train
from lmk_integrations.training.data import Example, TrainingData, read_training_data
from lmk_integrations.training.mine import MineReport, MineSettings, mine
from lmk_integrations.training.save import save_landmark_model
from lmk_integrations.training.settings import TrainSettings

__all__ = [
    "AdaptReport",
    "AdaptSettings",
    "Example",
    "MineReport",
    "MineSettings",
    "TrainReport",
    "TrainSettings",
    "TrainingData",
    "adapt",
    "mine",
    "read_training_data",
    "save_landmark_model",
    "train",
]
