"""`adapt`: it learns, stops and resumes to the same curve, and its output opens as landmarks."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from lmk_integrations import LMKEncoder
from lmk_integrations.cli import main
from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.encoder.backends.torch import load_transformer
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.errors import ConfigError, ModelError
from lmk_integrations.training import AdaptSettings, adapt
from lmk_integrations.training.corpus import read_corpus
from lmk_integrations.training.objective import Objective, StudentLayout
from lmk_integrations.training.pieces import Piece, Steps, slices_of
from lmk_integrations.training.teacher import Targets, Teacher

WORDS = "fox dog river landmark harbour query passage heading paragraph chunk quick brown lazy"
FAST = {"batch": 8, "longest": 220, "context_tokens": 60, "lr": 3e-3, "precision": "float32"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of a few documents, each with words of its own."""
    folder = tmp_path_factory.mktemp("text")
    chooser = random.Random(0)
    for number in range(12):
        own = chooser.sample(WORDS.split(), 5)
        lines = [" ".join(chooser.choices(own, k=9)).capitalize() + "." for _ in range(60)]
        (folder / f"{number}.txt").write_text(" ".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def opened(directory, pooling):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return OpenModel(directory, EncoderSettings(pooling=pooling, dtype="float32"))


def loss_of(student, base, text, settings):
    """The mean loss of a model's weights on ten batches that no training of these tests sees."""
    model = opened(base, "lmk")
    corpus = read_corpus(text, model.tokenizer)
    steps = Steps(corpus, settings, np.array([32, 64]))
    layout, teacher = StudentLayout(model), Teacher(opened(base, None), settings.context_tokens)
    objective = Objective(load_transformer(student, torch.float32)[0], model, settings).eval()
    batches = [steps.batch(number) for number in range(1000, 1010)]
    with torch.no_grad():
        return np.mean([objective(layout.windows(b), teacher.targets(b)).item() for b in batches])


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_adapting_lowers_the_loss_and_opens_as_landmarks(kind, calm, text, tmp_path):
    """Any architecture: the loss falls, and the vectors come near the base's own."""
    base = calm(kind)
    out = tmp_path / "out"
    settings = AdaptSettings(steps=100, **FAST)
    report = adapt(base, text, out, settings)
    assert loss_of(out, base, text, settings) < 0.9 * loss_of(base, base, text, settings)
    assert report.steps == 100
    assert report.tokens > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was trained for landmarks: no warning
        adapted = LMKEncoder(out, dtype="float32")
    assert adapted.pooling == "lmk"
    texts = [(text / f"{n}.txt").read_text()[:300] for n in range(6)]
    wanted = LMKEncoder(base, dtype="float32").encode_documents(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = LMKEncoder(base, pooling="lmk", dtype="float32").encode_documents(texts)
    after = adapted.encode_documents(texts)
    apart = [1 - (vectors * wanted).sum(1).mean() for vectors in (before, after)]
    assert apart[1] < 0.7 * apart[0]
    card = (out / "README.md").read_text()
    assert "lmk adapt" in card
    assert "last loss" in card
    assert json.loads((out / "training.json").read_text())["steps"] == 100
    assert not (out / "checkpoints").exists()


def test_a_killed_adaptation_resumes_to_the_same_curve(calm, text, tmp_path):
    """Stopped after some steps and resumed, every loss and weight is as if never stopped."""
    settings = AdaptSettings(steps=8, save_every=3, **FAST)
    whole = adapt(calm("bert"), text, tmp_path / "whole", settings)
    stop = threading.Event()

    def after_four(progress):
        if progress.step == 4:  # known after the moment to stop
            stop.set()

    out = tmp_path / "cut"
    cut = adapt(calm("bert"), text, out, settings, on_progress=after_four, stop=stop)
    assert cut.stopped
    assert cut.steps == 5
    assert not (out / "model.safetensors").exists()
    with pytest.raises(ConfigError, match="was cut short"):
        adapt(calm("bert"), text, out, settings)
    other = AdaptSettings(steps=8, save_every=3, **{**FAST, "lr": 1e-3})
    with pytest.raises(ConfigError, match=r"lr=0\.003, not 0\.001"):
        adapt(calm("bert"), text, out, other, resume=True)
    resumed = adapt(calm("bert"), text, out, settings, resume=True)
    assert [step for step, _ in resumed.losses] == list(range(1, 9))
    assert [loss for _, loss in resumed.losses] == pytest.approx(
        [loss for _, loss in whole.losses], abs=1e-5
    )
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert set(one) == set(two)
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)
    assert adapt(calm("bert"), text, out, settings, resume=True).steps == 8  # left as it is
    with pytest.raises(ConfigError, match="holds a finished training"):
        adapt(calm("bert"), text, out, settings)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_the_teacher_may_be_a_landmark_model(kind, calm, tmp_path):
    """Adapted once more, a model is held to its landmarks, not to the states of first tokens."""
    base = tmp_path / "base"
    shutil.copytree(calm(kind), base)
    (base / "lmk_config.json").write_text('{"version": 1, "pooling": "lmk"}')
    words = "the fox and the dog by the river all day long"
    model = opened(base, None)
    ids = model.tokenizer.encode(words).ids
    targets = Teacher(model, 60).targets([Piece(ids, np.array([0, len(ids)]))])
    wanted = LMKEncoder(base, granularity=64, dtype="float32").encode_documents([words])
    assert np.abs(targets.text - wanted).max() < 1e-5
    assert np.abs(targets.chunk - wanted).max() < 1e-5


def test_a_diverged_training_writes_no_model(calm, text, tmp_path):
    """A loss that is no number ends the training with a remedy, not with a broken model."""
    out = tmp_path / "out"
    with pytest.raises(ModelError, match=r"diverged; pass a lower lr"):
        adapt(calm("bert"), text, out, AdaptSettings(steps=8, **{**FAST, "lr": 1e38}))
    assert not (out / "model.safetensors").exists()


def test_the_text_and_the_output_stay_apart(calm, text, tmp_path):
    """Outputs are never read as text, and nothing that is there already is written over."""
    settings = AdaptSettings(steps=1, **FAST)
    with pytest.raises(ConfigError, match="is inside the text"):
        adapt(calm("bert"), text, text / "out", settings)
    assert not (text / "out").exists()
    with pytest.raises(ConfigError, match="already"):
        adapt(calm("bert"), text, calm("bert"), settings)
    never = AdaptSettings(steps=1, **FAST, granularities=(4096,), shares=(1.0,))
    with pytest.raises(ConfigError, match="has room for"):
        adapt(calm("bert"), text, tmp_path / "new", never)
    assert not (tmp_path / "new").exists()


def test_a_sigkilled_adaptation_resumes_to_the_same_curve(calm, text, tmp_path):
    """Killed at any moment after the first checkpoint; the same command with --resume."""

    def command(out, *more):
        line = [sys.executable, "-m", "lmk_integrations.cli", "adapt", "--json", "--out", str(out)]
        line += ["--base", str(calm("bert")), "--text", str(text), "--batch", "4", "--steps", "40"]
        return [*line, "--longest", "100", "--context-tokens", "40", "--save-every", "4", *more]

    options = {
        "env": {**os.environ, "OMP_NUM_THREADS": "1"},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    process = subprocess.Popen(command(tmp_path / "cut"), **options)
    try:
        deadline = time.monotonic() + 300
        while not list((tmp_path / "cut").glob("checkpoints/checkpoint-*/trainer_state.json")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "cut" / "training.json").exists()
    for out, more in (("cut", ["--resume"]), ("whole", [])):
        subprocess.run(command(tmp_path / out, *more), check=True, **options)
    cut, whole = (
        json.loads((tmp_path / out / "training.json").read_text()) for out in ("cut", "whole")
    )
    assert [step for step, _ in cut["losses"]] == list(range(1, 41))
    assert np.allclose(cut["losses"], whole["losses"], atol=1e-3)


def test_accumulated_batches_count_alike(calm, text, tmp_path):
    """The loss of a step over two batches is the mean of theirs."""
    still = {**FAST, "lr": 1e-12, "weight_decay": 0.0, "memory": 0}
    single = adapt(calm("bert"), text, tmp_path / "one", AdaptSettings(steps=4, **still))
    double = adapt(
        calm("bert"), text, tmp_path / "two", AdaptSettings(steps=2, accumulate=2, **still)
    )
    losses = [loss for _, loss in single.losses]
    wanted = [np.mean(losses[:2]), np.mean(losses[2:])]
    assert [loss for _, loss in double.losses] == pytest.approx(wanted, rel=1e-4)


def test_the_command_adapts_and_says_so(calm, text, tmp_path, capsys):
    """`lmk adapt` prints what was done; --json for programs; usage errors exit with 2."""
    out = tmp_path / "out"
    arguments = ["adapt", "--base", str(calm("bert")), "--text", str(text), "--out", str(out)]
    short = ["--batch", "4", "--longest", "64", "--context-tokens", "40"]
    assert main([*arguments, *short, "--minutes", "0.01", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["type"], result["command"]) == ("result", "adapt")
    assert result["steps"] >= 1
    assert LMKEncoder(out).pooling == "lmk"
    assert main([*arguments, *short, "--steps", "1"]) == 2
    assert "holds a finished training" in capsys.readouterr().err
    missing = [*arguments[:-1], str(tmp_path / "new"), "--eval", str(tmp_path), "--steps", "1"]
    assert main(missing) in (1, 2)
    assert not (tmp_path / "new").exists()


def test_the_teacher_is_the_base_with_its_own_pooling(calm):
    """A slice's vector is what `LMKEncoder` gives for that text; a blend is as defined."""
    base = opened(calm("bert"), None)
    words = "the fox and the dog by the river all day long"
    ids = base.tokenizer.encode(words).ids
    n = len(ids)
    piece = Piece(ids, np.array([0, n]))
    targets = Teacher(base, 60).targets([piece])
    vector = LMKEncoder(calm("bert"), dtype="float32").encode_documents([words])[0]
    assert np.allclose(targets.text[0], vector, atol=1e-5)
    assert np.allclose(targets.chunk[0], vector, atol=1e-5)
    assert np.allclose(targets.landmark[0], vector, atol=1e-5)


def test_targets_are_blended_and_sharpened_as_defined(calm):
    """A landmark's target is the named blend; a long text's leans to what tells it from others,
    a text that the base reads at once keeps the base's vector."""
    base = opened(calm("bert"), None)
    rng = np.random.default_rng(0)
    n_words = len(base.tokenizer.encode(WORDS).ids)
    known = base.tokenizer.encode(WORDS).ids
    texts = [known[rng.integers(n_words, size=160)] for _ in range(40)]
    long = [Piece(ids, np.arange(0, 161, 20)) for ids in texts]
    short = Piece(texts[0][:40], np.array([0, 20, 40]))
    plain, sharp = Teacher(base, 40), Teacher(base, 40, sharpen=0.5)
    sharp.learn_domains(long, seed=0)
    assert sharp._domains is not None
    before, after = plain.targets([long[3], short]), sharp.targets([long[3], short])
    mean = l2_normalize(before.chunk[:8].mean(axis=0)[None])
    wanted = l2_normalize(before.text[0] + 0.5 * sharp._domains.directions(mean)[0])
    assert np.allclose(after.text[0], wanted, atol=1e-5)
    assert not np.allclose(after.text[0], before.text[0], atol=1e-2)
    assert np.allclose(after.text[1], before.text[1], atol=1e-5)

    ids = long[3].ids  # the third chunk is [40, 60): around it [30, 70), its window [20, 60)
    plan = slices_of(long[3].bounds, 40)
    assert plan.slices[plan.wide[2]].tolist() == [30, 70]
    window = plan.slices[plan.window[2]].tolist()
    parts = [ids[a:b] for a, b in ([40, 60], [30, 70], window)]
    chunk, wide, around = plain._vectors(parts)
    for found in (before, after):
        blend = l2_normalize(chunk + 0.7 * wide + 0.5 * around + 0.6 * found.text[0])
        assert np.allclose(found.landmark[2], blend, atol=1e-5)


def test_the_student_reads_what_the_encoder_reads(calm):
    """The rows of the objective are the landmark states of `LMKEncoder`, over windows too."""
    model = opened(calm("bert"), "lmk")
    words = " ".join(WORDS.split() * 14)
    ids = model.tokenizer.encode(words).ids
    bounds = np.append(np.arange(0, len(ids), 32), len(ids))
    student = AutoModel.from_pretrained(calm("bert"))
    objective = Objective(student, model, AdaptSettings(steps=1))
    windows = StudentLayout(model).windows([Piece(ids, bounds)])
    assert len(windows) > 1
    with torch.no_grad():
        rows = objective._rows(windows, len(bounds) - 1).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = LMKEncoder(calm("bert"), pooling="lmk", granularity=32, dtype="float32")
    [found] = encoder.encode_landmarks([words])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = found.landmarks / np.linalg.norm(found.landmarks, axis=1, keepdims=True)
    assert np.allclose(unit, wanted, atol=1e-4)


@pytest.mark.parametrize("autocast", [False, True])
def test_the_loss_by_hand(calm, autocast):
    """Four terms on two texts of two orthogonal landmarks each, with the sums done by hand.

    Under autocast too: a score in bfloat16, divided by the temperature, would be noise.
    """
    model = opened(calm("bert"), "lmk")
    student = AutoModel.from_pretrained(calm("bert"))
    options = AdaptSettings(
        steps=1, text_weight=1, landmark_weight=2, find_weight=3, part_weight=4, temperature=1.0
    )
    objective = Objective(student, model, options).eval()
    eye = torch.eye(model.dim)
    rows = torch.stack([eye[0], eye[1], eye[2], eye[3]])
    objective._rows = lambda windows, n_rows: rows
    unit = eye.numpy()
    half = np.sqrt(0.5)
    targets = Targets(
        text=np.stack([unit[0], (unit[2] + unit[3]) * half]).astype(np.float32),
        landmark=np.stack([unit[0], unit[1], unit[2], unit[9]]),
        chunk=np.stack([unit[0], unit[1], unit[2], unit[3]]),
        owner=np.array([0, 0, 1, 1]),
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = float(objective([], targets))
    text = ((1 - half) + 0) / 2  # text vectors: (e0+e1)/sqrt2 and (e2+e3)/sqrt2
    landmark = 1 / 4
    find = np.log(np.exp(half) + 1) - half  # own text scores sqrt(1/2), the other 0
    part = np.log(2)  # without its own landmark a chunk finds nothing: 0 against 0
    assert objective.parts == pytest.approx(
        {"text": text, "landmark": landmark, "find": find, "part": part}, abs=1e-6
    )
    assert loss == pytest.approx(text + 2 * landmark + 3 * find + 4 * part, abs=1e-5)


def test_texts_weigh_by_the_root_of_their_landmarks(calm):
    """A text of four landmarks counts twice as much as a text of one."""
    options = AdaptSettings(steps=1)
    student = AutoModel.from_pretrained(calm("bert"))
    model = opened(calm("bert"), "lmk")
    objective = Objective(student, model, options).eval()
    unit = torch.eye(model.dim)
    objective._rows = lambda windows, n_rows: unit[[0, 1, 1, 1, 1]]
    owner = np.array([0, 1, 1, 1, 1])
    rows = unit[[0, 1, 1, 1, 1]].numpy()
    wrong = Targets(text=unit[[2, 1]].numpy(), landmark=rows, chunk=rows, owner=owner)
    objective([], wrong)  # the short text is all wrong, the long one right
    assert objective.parts["text"] == pytest.approx(1 / 3)


def test_the_memory_holds_the_last_texts(calm):
    """Vectors of texts with several chunks serve as negatives later; the oldest give way."""
    model = opened(calm("bert"), "lmk")
    student = AutoModel.from_pretrained(calm("bert"))
    objective = Objective(student, model, AdaptSettings(steps=1, memory=3))
    eye = torch.eye(model.dim)
    for first in (0, 2, 4):
        objective._remember(eye[first : first + 2])
    assert int(objective.filled) == 6
    assert {int(row.argmax()) for row in objective.memory} == {3, 4, 5}
    objective.forget()
    assert int(objective.filled) == 0
    assert not objective.memory.any()
