"""sentence-transformers' trainer, set up for a contrastive training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.data_collator import (
    SentenceTransformerDataCollator,
)
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from transformers import PrinterCallback

from lmk_integrations.training.losses import build_loss
from lmk_integrations.training.precision import autocasts
from lmk_integrations.training.progress import Watcher
from lmk_integrations.training.settings import TrainSettings

_KEPT_LOSSES = 1000  # points of the loss curve, at most


class _Trainer(SentenceTransformerTrainer):
    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: we write a card of our own, and theirs encodes examples first."""


def build_trainer(
    model: Any, settings: TrainSettings, dataset: Any, checkpoints: Path, watcher: Watcher
) -> Any:
    """The trainer. dataset: a column per text, and labels where a teacher's scores are used."""
    per_step = settings.batch * settings.accumulate
    steps = settings.steps or max(1, round(settings.epochs * len(dataset) / per_step))
    texts = [name for name in dataset.column_names if name != "label"]
    prompts = {name: model.prompts["query" if name == "query" else "document"] for name in texts}
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
        max_steps=-1 if settings.steps is None else settings.steps,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.lr,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        seed=settings.seed,
        data_seed=settings.seed,
        bf16=autocasts(settings.precision, model.device),
        use_cpu=model.device.type == "cpu",
        # The same text as answer and as negative of one batch would be learned both ways.
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        prompts={name: prompt for name, prompt in prompts.items() if prompt} or None,
        logging_steps=max(1, steps // _KEPT_LOSSES),
        logging_nan_inf_filter=False,
        save_steps=settings.save_every,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = _Trainer(
        model=model,
        args=arguments,
        train_dataset=dataset,
        data_collator=SentenceTransformerDataCollator(
            preprocess_fn=partial(model.preprocess, training=True), prompts=arguments.prompts
        ),
        loss=build_loss(model, settings),
        callbacks=[watcher],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
