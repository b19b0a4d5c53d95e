"""The study, whole, with a tiny teacher: it trains, stops, goes on and reports."""

import json
import shutil
import threading

import numpy as np
import pytest
import torch

from lmk_integrations.cli import main
from lmk_integrations.encoder.backends.torch import load_transformer
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.study import StudySettings, run_study
from lmk_integrations.study.distil import Batches, Distillation
from lmk_integrations.study.report import ALL
from lmk_integrations.study.small import small_encoder
from lmk_integrations.training.corpus import read_corpus

FAST = {
    "layers": 1,
    "distil_steps": 4,
    "steps": 3,
    "batch": 4,
    "text_tokens": 64,
    "lengths": (64, 200),
    "documents": 5,
    "set_documents": 16,
    "save_every": 2,
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_small_encoder_has_the_teachers_words(teacher):
    words = load_transformer(teacher.transformer, torch.float32)[0].get_input_embeddings().weight
    small = small_encoder(teacher, 2, seed=0)
    assert torch.equal(small.get_input_embeddings().weight, words)
    assert small.config.num_hidden_layers == 2
    other = small_encoder(teacher, 2, seed=1)
    assert not torch.equal(small.layers[0].mlp.Wi.weight, other.layers[0].mlp.Wi.weight)


def test_each_pooling_takes_its_turn(teacher, text_folder):
    """Batch 0 is read as cls, 1 as mean, 2 as lmk; the teacher reads the text alone each time."""
    corpus = read_corpus(text_folder, teacher.tokenizer)
    batches = Batches(corpus, teacher, torch.device("cpu"))
    cls, mean, lmk = (batches.batch(number) for number in range(3))
    assert cls["pooled"].tolist() == [0]
    assert mean["pooled"].tolist() == list(range(mean["ids"].shape[1]))
    landmark = teacher.tokenizer.landmark_id
    assert (lmk["ids"][:, lmk["pooled"]] == landmark).all()
    assert (lmk["ids"][:, -1] == landmark).all()
    for batch in (cls, mean, lmk):
        n, n_tokens, _ = batch["states"].shape
        assert batch["tokens"].shape == (n_tokens,)
        ids = batch["ids"][:, batch["tokens"]].numpy()
        whole = np.pad(ids, ((0, 0), (1, 1)))
        whole[:, 0], whole[:, -1] = teacher.tokenizer.prefix[0], teacher.tokenizer.suffix[0]
        model = load_transformer(teacher.transformer, torch.float32)[0]
        with torch.no_grad():
            states = model(input_ids=torch.from_numpy(whole)).last_hidden_state
        assert torch.allclose(states[:, 1:-1], batch["states"], atol=0.05)  # bfloat16 at most
        assert torch.allclose(states.mean(dim=1), batch["vectors"], atol=0.05)
        assert len(np.unique(ids, axis=0)) > n // 2


def test_a_student_that_says_what_the_teacher_says_has_no_loss():
    class Echo(torch.nn.Module):
        def forward(self, input_ids):
            states = torch.nn.functional.one_hot(input_ids, 16).float() * 4  # sqrt(16)
            return type("Output", (), {"last_hidden_state": states})

    ids = torch.tensor([[1, 2, 3, 4]])
    tokens, pooled = torch.tensor([1, 2]), torch.tensor([0, 1, 2, 3])
    states = torch.nn.functional.one_hot(ids, 16).float()[:, 1:3] * 7
    vectors = torch.nn.functional.one_hot(ids, 16).float().mean(dim=1)
    loss = Distillation(Echo())(ids, tokens, pooled, states, vectors)
    assert loss.item() == pytest.approx(0, abs=1e-6)
    loss = Distillation(Echo())(ids, tokens, pooled[:1], states.flip(1), vectors)
    assert loss.item() == pytest.approx(2 + 1 - 0.5)  # orthogonal units; 1 word of the vector's 4


def test_a_study_that_is_stopped_goes_on_to_the_same_scores(
    teacher_directory, text_folder, retrieval_set, tmp_path
):
    settings = StudySettings(**FAST)

    def study(out, stop=None, on_progress=None):
        return run_study(
            text_folder,
            [retrieval_set],
            tmp_path / out,
            settings,
            base=teacher_directory,
            stop=stop,
            on_progress=on_progress,
        )

    whole = study("whole")
    assert whole.seeds == (0,)
    assert {row.task for row in whole.report.by_length} == {"passkey", "needle", "stories", ALL}
    assert all(set(row.scores) == {"cls", "mean", "lmk"} for row in whole.report.by_length)

    for place in ("distilling", "training mean-0", "scoring lmk-0"):
        stop = threading.Event()

        def told(what, done, total, place=place, stop=stop):
            if what == place:
                stop.set()

        stopped = study("parts", stop, told)
        assert stopped.report is None
        assert stopped.seeds == ()
        assert "stopped before the end" in stopped.notes[-1]
    assert study("parts").report == whole.report

    seen = []
    assert study("parts", on_progress=lambda what, *_: seen.append(what)).report == whole.report
    assert not any("training" in what for what in seen)  # nothing was done again

    with pytest.raises(ConfigError, match="was begun with steps"):
        run_study(
            text_folder,
            [retrieval_set],
            tmp_path / "parts",
            StudySettings(**{**FAST, "steps": 5}),
            base=teacher_directory,
        )


def test_scores_of_other_documents_are_not_taken_again(
    teacher_directory, text_folder, retrieval_set, tmp_path
):
    """The trainings stand, and what they are asked has changed."""

    def study(**changed):
        settings = StudySettings(**{**FAST, "lengths": (64,), **changed})
        return run_study(
            text_folder, [retrieval_set], tmp_path / "out", settings, base=teacher_directory
        )

    assert study().report.by_length[0].queries == 5
    assert study(documents=7).report.by_length[0].queries == 7


def test_the_command(teacher_directory, text_folder, retrieval_set, tmp_path, capsys):
    arguments = [str(text_folder), "--sets", str(retrieval_set), "--out", str(tmp_path / "out")]
    arguments += ["--base", str(teacher_directory), "--layers", "1", "--distil-steps", "2"]
    arguments += ["--steps", "2", "--batch", "4", "--lengths", "64,600", "--documents", "5"]
    plot = tmp_path / "pooling.svg"
    assert main(["bench", "pooling", *arguments, "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert " lmk - cls |" in shown
    assert "all long tasks" in shown
    assert "80 to 100 %" in shown
    assert plot.read_text().count("<svg") == 1
    assert main(["bench", "pooling", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == [0]
    assert found["report"]["by_length"][0]["scores"]["lmk"]["mean"] >= 0


@pytest.mark.parametrize(
    "wrong", [{"layers": 7}, {"seeds": ()}, {"seeds": (1, 1)}, {"lengths": (8,)}, {"lr": 0}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        StudySettings(**wrong)


def test_a_study_without_text_or_sets_is_refused_before_it_is_made(retrieval_set, tmp_path):
    with pytest.raises(ConfigError, match="no such file or folder"):
        run_study(tmp_path / "none", [retrieval_set], tmp_path / "out", StudySettings())
    with pytest.raises(ConfigError, match="sets names none"):
        run_study(tmp_path, [], tmp_path / "out", StudySettings())
    assert not (tmp_path / "out").exists()


def test_two_sets_of_one_name_are_refused(teacher_directory, text_folder, retrieval_set, tmp_path):
    twice = [retrieval_set, retrieval_set]
    with pytest.raises(ConfigError, match="two tasks of one name"):
        run_study(text_folder, twice, tmp_path / "o", StudySettings(), base=teacher_directory)


def test_nothing_of_another_base_is_taken_for_new(
    teacher_directory, text_folder, retrieval_set, tmp_path
):
    """Where someone deletes a part of the folder: trainings know their base, scores their model."""

    def study(out, **changed):
        return run_study(
            text_folder,
            [retrieval_set],
            tmp_path / out,
            StudySettings(**{**FAST, "lengths": (64,), **changed}),
            base=teacher_directory,
        )

    study("out")
    shutil.rmtree(tmp_path / "out" / "base")
    with pytest.raises(ConfigError, match="cls-0 was begun with base_space="):
        study("out", distil_lr=1e-2)
    for pooling in ("cls", "mean", "lmk"):
        shutil.rmtree(tmp_path / "out" / f"{pooling}-0")
    assert study("out", distil_lr=1e-2).report == study("new", distil_lr=1e-2).report


@pytest.mark.parametrize("content", ['{"a', "", "[]", "{}"])
def test_damaged_scores_are_made_again(
    content, teacher_directory, text_folder, retrieval_set, tmp_path, caplog
):
    def study():
        settings = StudySettings(**{**FAST, "lengths": (64,)})
        return run_study(
            text_folder, [retrieval_set], tmp_path / "out", settings, base=teacher_directory
        )

    before = study().report
    kept = tmp_path / "out" / "scores-lmk-0.json"
    whole = kept.read_text()
    kept.write_text(content)
    assert study().report == before
    assert kept.read_text() == whole
    assert "scores-lmk-0.json is damaged" in caplog.text


def test_texts_and_sets_that_will_not_do_are_told_before_anything_is_trained(
    teacher_directory, text_folder, retrieval_set, tmp_path
):
    def study(text, sets=(retrieval_set,), out=tmp_path / "out"):
        return run_study(text, list(sets), out, StudySettings(**FAST), base=teacher_directory)

    with pytest.raises(ConfigError, match=r"lies in .*, and would be read as text"):
        study(text_folder, out=text_folder / "out")
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "a.txt").write_text("fox dog river " * 3000)
    with pytest.raises(DocumentError, match="hardly any passage of several sentences"):
        study(lists)
    blank = tmp_path / "blank"
    shutil.copytree(retrieval_set, blank)
    rows = [json.loads(line) for line in (blank / "corpus.jsonl").read_text().splitlines()]
    lines = "".join(json.dumps({**row, "text": " "}) + "\n" for row in rows)
    (blank / "corpus.jsonl").write_text(lines)
    with pytest.raises(DocumentError, match="blank: its documents hold no text"):
        study(text_folder, sets=[blank])
    assert not list((tmp_path / "out").iterdir())


def test_files_that_cannot_be_read_are_named(
    teacher_directory, text_folder, retrieval_set, tmp_path
):
    texts = tmp_path / "texts"
    shutil.copytree(text_folder, texts)
    (texts / "torn.docx").write_bytes(b"no archive")
    settings = StudySettings(**{**FAST, "lengths": (64,)})
    found = run_study(texts, [retrieval_set], tmp_path / "out", settings, base=teacher_directory)
    assert [note.split(":")[0].rsplit("/")[-1] for note in found.notes] == ["torn.docx"]


def test_a_text_of_too_few_tokens_for_a_batch(teacher, tmp_path):
    (tmp_path / "a.txt").write_text("The quick brown fox.")
    corpus = read_corpus(tmp_path, teacher.tokenizer)
    with pytest.raises(DocumentError, match=r"the text has \d+ tokens, of which batches of \d+"):
        Batches(corpus, teacher, torch.device("cpu"))
