"""transformers' trainer for batches that are made by number, and not drawn from a data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainingArguments

from lmk_integrations.training.precision import autocasts
from lmk_integrations.training.progress import Watcher
from lmk_integrations.training.settings import Precision

_KEPT_LOSSES = 1000  # points of the loss curve, at most

MakeBatch = Callable[[int], dict[str, Any]]


def in_order_trainer(
    objective: torch.nn.Module,
    make_batch: MakeBatch,
    steps: int,
    checkpoints: Path,
    watcher: Watcher,
    device: torch.device,
    *,
    lr: float,
    warmup: float,
    weight_decay: float,
    seed: int,
    save_every: int,
    precision: Precision = "auto",
    accumulate: int = 1,
) -> Trainer:
    """A trainer that takes batch 0, 1, ...: a resumed training sees what an unbroken one does.

    objective: called with what ``make_batch`` gives, returns its loss. ``make_batch`` is called
    outside autocast, so a teacher in it computes as it is.
    """
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        max_steps=steps,
        per_device_train_batch_size=1,  # an item of the data set is a batch of texts already
        gradient_accumulation_steps=accumulate,
        learning_rate=lr,
        weight_decay=weight_decay,
        lr_scheduler_type="cosine",
        warmup_steps=warmup,
        seed=seed,
        bf16=autocasts(precision, device),
        use_cpu=device.type == "cpu",
        logging_steps=max(1, steps // _KEPT_LOSSES),
        logging_nan_inf_filter=False,
        save_steps=save_every,
        save_total_limit=2,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = _InOrder(
        model=objective,
        args=arguments,
        train_dataset=_Batches(make_batch, steps * accumulate),
        data_collator=lambda items: items[0],
        callbacks=[watcher],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def losses_of(trainer: Trainer) -> tuple[tuple[int, float], ...]:
    """(step, mean loss since the one before) of all that was logged."""
    return tuple(
        (int(entry["step"]), float(entry["loss"]))
        for entry in trainer.state.log_history
        if "loss" in entry
    )


class _Batches(torch.utils.data.Dataset[dict[str, Any]]):
    """The batches by number, made when they are asked for."""

    def __init__(self, make_batch: MakeBatch, count: int) -> None:
        self._make_batch = make_batch
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self._make_batch(number)


class _InOrder(Trainer):
    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        batches: Any = train_dataset or self.train_dataset
        return torch.utils.data.SequentialSampler(batches)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The objective is its own loss."""
        loss = model(**inputs)
        return (loss, {}) if return_outputs else loss
