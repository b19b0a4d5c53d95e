"""A training that was killed or stopped goes on to the same loss curve."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.training.contrastive import train
from lmk_integrations.training.data import read_training_data
from lmk_integrations.training.settings import TrainSettings

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

OPTIONS = {
    "steps": 20,
    "batch": 8,
    "lr": 1e-3,
    "temperature": 0.05,
    "max_tokens": 32,
    "granularities": (4, 8, 16),
    "save_every": 3,
    "precision": "float32",
}


class PulledPlugError(Exception):
    """The power went."""


def pull_plug_at(step):
    def on_progress(progress):
        if progress.step == step:
            raise PulledPlugError

    return on_progress


def stop_at(step, event):
    def on_progress(progress):
        if progress.step == step:
            event.set()

    return on_progress


def vectors(directory):
    return LMKEncoder(directory, dtype="float32").encode_documents(["fox", "a river and the sea"])


@pytest.mark.parametrize(
    "way", [{}, {"accumulate": 2, "pooling": "lmk"}, {"mini_batch": 3}, {"pooling": "mean"}]
)
def test_same_curve_after_a_crash(way, dropping, toy_file, tmp_path):
    """In the third epoch, past a checkpoint, with dropout and granularities drawn at random."""
    data, settings = read_training_data(toy_file), TrainSettings(**OPTIONS | way)
    whole = train(dropping, data, tmp_path / "whole", settings)
    with pytest.raises(PulledPlugError):
        train(dropping, data, tmp_path / "cut", settings, on_progress=pull_plug_at(14))
    assert not (tmp_path / "cut" / "lmk_config.json").exists()
    seen = []
    resumed = train(
        dropping, data, tmp_path / "cut", settings, resume=True, on_progress=seen.append
    )
    assert [progress.step for progress in seen] == list(range(13, 21))
    assert resumed.losses == whole.losses
    np.testing.assert_array_equal(vectors(tmp_path / "cut"), vectors(tmp_path / "whole"))


def test_asked_to_stop(dropping, toy_file, tmp_path):
    """The step in hand is finished and kept; later the training goes on from there."""
    data, settings = read_training_data(toy_file), TrainSettings(**OPTIONS)
    whole = train(dropping, data, tmp_path / "whole", settings)
    stop = threading.Event()
    stopped = train(
        dropping, data, tmp_path / "cut", settings, on_progress=stop_at(4, stop), stop=stop
    )
    assert stopped.stopped
    assert stopped.steps == 5
    seen = []
    resumed = train(
        dropping, data, tmp_path / "cut", settings, resume=True, on_progress=seen.append
    )
    assert seen[0].step == 6
    assert not resumed.stopped
    assert resumed.losses == whole.losses
    assert seen[-1].seconds_left == 0
    assert seen[0].seconds_left > 0


def test_a_checkpoint_half_written_is_passed_over(dropping, toy_file, tmp_path):
    """Power may go while a checkpoint is written: the one before it counts."""
    data, settings = read_training_data(toy_file), TrainSettings(**OPTIONS)
    with pytest.raises(PulledPlugError):
        train(dropping, data, tmp_path / "cut", settings, on_progress=pull_plug_at(8))
    (tmp_path / "cut" / "checkpoints" / "checkpoint-6" / "trainer_state.json").unlink()
    seen = []
    train(dropping, data, tmp_path / "cut", settings, resume=True, on_progress=seen.append)
    assert seen[0].step == 4


def test_resume_without_anything_to_resume(dropping, toy_file, tmp_path):
    """Starts; so one command line serves before and after a kill."""
    data, settings = read_training_data(toy_file), TrainSettings(**OPTIONS | {"steps": 2})
    report = train(dropping, data, tmp_path / "out", settings, resume=True)
    assert report.steps == 2
    again = train(dropping, data, tmp_path / "out", settings, resume=True)
    assert again == report  # and a finished one is left as it is
    with pytest.raises(ConfigError, match="finished training"):
        train(dropping, data, tmp_path / "out", settings)


def test_another_training_is_not_resumed(dropping, toy_file, tmp_path):
    """Other settings or other data are refused by name, and so is a silent new start."""
    data, settings = read_training_data(toy_file), TrainSettings(**OPTIONS)
    with pytest.raises(PulledPlugError):
        train(dropping, data, tmp_path / "cut", settings, on_progress=pull_plug_at(4))
    with pytest.raises(ConfigError, match="cut short"):
        train(dropping, data, tmp_path / "cut", settings)
    other = TrainSettings(**OPTIONS | {"lr": 0.1})
    with pytest.raises(ConfigError, match=r"lr=0\.001, not 0\.1"):
        train(dropping, data, tmp_path / "cut", other, resume=True)
    toy_file.write_text("".join(toy_file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ConfigError, match="data="):
        train(dropping, read_training_data(toy_file), tmp_path / "cut", settings, resume=True)


def test_a_model_is_not_overwritten(dropping, toy_file, tmp_path):
    """A directory that holds a model from elsewhere is left alone."""
    (tmp_path / "lmk_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds a model already"):
        train(dropping, read_training_data(toy_file), tmp_path, TrainSettings(**OPTIONS))


def test_killed_process(dropping, toy_file, tmp_path):
    """SIGKILL, at any moment after the first checkpoint, and the same command with --resume."""
    command = [sys.executable, "-m", "lmk_integrations.cli", "train", "--json"]
    command += ["--base", str(dropping), "--data", str(toy_file), "--out", str(tmp_path / "cut")]
    command += ["--steps", "400", "--batch", "8", "--lr", "1e-3", "--temperature", "0.05"]
    command += ["--max-tokens", "32", "--granularities", "4,8,16", "--save-every", "5"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # sums in the order of this process
    )
    try:
        checkpoints = tmp_path / "cut" / "checkpoints"
        deadline = time.monotonic() + 300
        while not list(checkpoints.glob("checkpoint-*/trainer_state.json")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    settings = TrainSettings(**OPTIONS | {"steps": 400, "save_every": 5, "precision": "auto"})
    data, stop = read_training_data(toy_file), threading.Event()
    resumed = train(
        str(dropping),
        data,
        tmp_path / "cut",
        settings,
        resume=True,
        on_progress=lambda progress: stop.set(),
        stop=stop,
    )
    assert resumed.stopped
    stop = threading.Event()
    whole = train(
        str(dropping),
        data,
        tmp_path / "whole",
        settings,
        on_progress=stop_at(resumed.steps - 1, stop),
        stop=stop,
    )
    assert whole.steps == resumed.steps
    found, expected = (dict(report.losses) for report in (resumed, whole))
    assert found == pytest.approx(expected, rel=1e-4)
