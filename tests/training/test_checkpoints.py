"""The output directory of a training, as kills, careless users and other processes leave it."""

import pytest

from lmk_integrations.errors import ConfigError
from lmk_integrations.training.checkpoints import Checkpoints, check_out

SAME = {"seed": 0}


def test_what_is_there_already_is_left_alone(tmp_path):
    """A file, or a folder with anything of another origin, is refused; hidden files are not."""
    out = tmp_path / "out"
    check_out(out, resume=False)
    out.mkdir()
    (out / ".gitattributes").write_text("")
    check_out(out, resume=False)
    (out / "config.json").write_text("{}")
    for resume in (False, True):
        with pytest.raises(ConfigError, match=r"'config\.json' already"):
            check_out(out, resume=resume)
        with pytest.raises(ConfigError, match="is a file"):
            check_out(out / "config.json", resume=resume)


def test_two_trainings_never_share_an_output(tmp_path):
    """The second is told so while the first runs, and may resume once it has ended."""
    one, two = (Checkpoints(tmp_path / "out", SAME) for _ in range(2))
    with (
        one.begin(resume=False),
        pytest.raises(ConfigError, match="another process is training into"),
        two.begin(resume=True),
    ):
        pass
    with two.begin(resume=True) as checkpoint:
        assert checkpoint is None


def test_files_cut_short_by_a_kill(tmp_path):
    """A checkpoint whose last file is half written does not count; no file ends in a traceback."""
    checkpoints = Checkpoints(tmp_path / "out", SAME)
    for step, state in ((9, '{"global_step": 9}'), (10, '{"global_st'), (11, "")):
        folder = checkpoints.folder / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(state)
    with checkpoints.begin(resume=True) as checkpoint:
        assert checkpoint is not None
        assert checkpoint.name == "checkpoint-9"
    (checkpoints.folder / "settings.json").write_text('{"se')
    with pytest.raises(ConfigError, match="was begun with"), checkpoints.begin(resume=True):
        pass


def test_killed_while_the_checkpoints_are_removed(tmp_path):
    """The training is finished; the next call with resume tidies up."""
    checkpoints = Checkpoints(tmp_path / "out", SAME)
    with checkpoints.begin(resume=False):
        checkpoints.finish({"steps": 3})
    assert not checkpoints.folder.exists()
    checkpoints.folder.mkdir()
    assert checkpoints.finished(resume=True) == {"steps": 3}
    assert not checkpoints.folder.exists()
