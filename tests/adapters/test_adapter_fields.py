"""What both adapters promise about options."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from pathlib import Path

import pytest
from pydantic import ValidationError

from lmk_integrations._adapters import EncoderOptions
from lmk_integrations.encoder import EncoderSettings, LMKEncoder
from lmk_integrations.errors import ConfigError, ModelError
from lmk_integrations.langchain import LMKEmbeddings
from lmk_integrations.llama_index import LMKEmbedding

ADAPTERS = [LMKEmbeddings, LMKEmbedding]
adapters = pytest.mark.parametrize("adapter", ADAPTERS)


def encoder_options() -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(LMKEncoder.__init__).parameters)
    del parameters["self"], parameters["model"]
    return parameters


@adapters
def test_fields_are_the_encoders_options(adapter):
    """Every option of LMKEncoder is a field of the same name, type and default."""
    types = typing.get_type_hints(LMKEncoder.__init__)
    for name, parameter in encoder_options().items():
        field = adapter.model_fields[name]
        assert field.default == parameter.default, name
        assert field.annotation == types[name], name


def test_keyword_types_are_the_encoders_options():
    """What a type checker allows is what the encoder takes, no more and no less."""
    types = typing.get_type_hints(LMKEncoder.__init__)
    assert typing.get_type_hints(EncoderOptions) == {
        name: types[name] for name in encoder_options()
    }


@adapters
def test_model_is_the_first_argument(adapter):
    """As in LMKEncoder: model first, None for the default, everything else by keyword."""
    first, *others = inspect.signature(adapter).parameters.values()
    assert (first.name, first.default) == ("model", None)
    assert all(other.kind is inspect.Parameter.KEYWORD_ONLY for other in others)
    assert set(encoder_options()) <= {other.name for other in others}


@adapters
def test_options_reach_the_encoder(adapter):
    """Each option arrives in the encoder under its own name."""
    options = {
        "pooling": "cls",
        "granularity": 16,
        "max_tokens": 256,
        "overlap_tokens": 8,
        "device": "cpu",
        "dtype": "float32",
        "backend": "torch",
        "compile": True,
        "query_prompt": "q: ",
        "document_prompt": "d: ",
        "normalize": False,
        "truncate_dim": 64,
        "token_budget": 1024,
        "local_files_only": True,
    }
    made = adapter(**options)
    assert options == {key: made.encoder.settings.to_dict()[key] for key in options}
    assert set(options) == set(EncoderSettings().to_dict())


@adapters
@pytest.mark.parametrize("keyword", ["model", "model_name"])
@pytest.mark.parametrize("kind", [str, Path])
def test_model_by_either_name(adapter, keyword, kind, encoder):
    """A directory, as text or path, is accepted as model and as model_name."""
    made = adapter(**{keyword: kind(encoder.directory)})
    assert made.model_name == str(encoder.directory)
    assert made.encoder.space == encoder.space


@adapters
def test_default_model_is_named(adapter):
    """An adapter made without a model tells which one it uses."""
    assert adapter().model_name == LMKEncoder().model_name


@adapters
def test_both_names_at_once_are_refused(adapter):
    """Two names for one option cannot contradict each other."""
    with pytest.raises(ConfigError, match="model_name='b'"):
        adapter(model="a", model_name="b")


@adapters
def test_ready_encoder_is_used_and_described(adapter, encoder):
    """encoder= is used as it is, and the fields tell its options."""
    made = adapter(encoder=encoder)
    assert made.encoder is encoder
    assert made.query_prompt == "query: "
    assert made.dtype == "float32"
    assert made.model_name == encoder.model_name


@adapters
@pytest.mark.parametrize("extra", [{"granularity": 16}, {"model": "x"}, {"dtype": "float32"}])
def test_encoder_with_another_option_is_refused(adapter, encoder, extra):
    """An option beside encoder= would be ignored or contradict it; the error names it."""
    with pytest.raises(ConfigError, match=f"{next(iter(extra))} cannot be given beside encoder="):
        adapter(encoder=encoder, **extra)


@adapters
def test_unknown_option_is_refused(adapter):
    """A misspelt option fails instead of being ignored."""
    with pytest.raises(ValidationError, match="granularty"):
        adapter(granularty=16)


@adapters
def test_bad_value_is_the_encoders_error(adapter):
    """A value that cannot work gives the encoder's own error, at construction."""
    with pytest.raises(ConfigError, match="pooling='max'"):
        adapter(pooling="max")


@adapters
def test_missing_model_fails_at_construction(adapter, tmp_path):
    """A model that is not there is found out when the object is made, not at the first text."""
    with pytest.raises(ModelError, match="does not exist"):
        adapter(model=tmp_path / "nothing")


@adapters
def test_options_cannot_be_assigned(adapter, encoder):
    """The encoder is made once, so an assignment that it could not follow is refused."""
    with pytest.raises(ValidationError, match="frozen"):
        adapter(encoder=encoder).granularity = 16


@adapters
def test_repr_is_short_and_holds_no_weights(adapter, encoder):
    """The repr tells the model and what differs from the defaults."""
    shown = repr(adapter(encoder=encoder))
    assert "model_name='lmk-minilm'" in shown
    assert "dtype='float32'" in shown
    assert "overlap_tokens" not in shown
    assert len(shown) < 200


@adapters
def test_pickle_carries_the_configuration_only(adapter, encoder):
    """A pickle is small; the copy has the same options and, opened anew, the same vectors."""
    made = adapter(encoder=encoder)
    data = pickle.dumps(made)
    assert len(data) < 10_000
    back = pickle.loads(data)
    assert back._runtime._encoder is None  # nothing is opened before it is needed
    assert back.encoder.settings == encoder.settings
    assert back.encoder.fingerprint == encoder.fingerprint


@adapters
def test_copies_share_the_encoder(adapter, encoder):
    """Copying an adapter in a process does not copy the weights."""
    made = adapter(encoder=encoder)
    assert copy.copy(made).encoder is encoder
    assert copy.deepcopy(made).encoder is encoder


@adapters
def test_copy_with_another_option_gets_another_encoder(adapter, encoder):
    """model_copy(update=…) must not keep the encoder of the old options."""
    changed = adapter(encoder=encoder).model_copy(update={"truncate_dim": 64})
    assert changed.encoder.dim == 64
    assert encoder.dim == 384


def test_langchain_adapters_compare_by_options(encoder):
    """Equal options, equal objects: the open encoder is no part of the value."""
    assert LMKEmbeddings(encoder=encoder) == pickle.loads(
        pickle.dumps(LMKEmbeddings(encoder=encoder))
    )
