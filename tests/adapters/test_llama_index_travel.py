"""LMKEmbedding between processes and in pipelines."""

from __future__ import annotations

import json
import pickle
import shutil
import threading

import numpy as np
import pytest
from llama_index.core import Document
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.vector_stores import SimpleVectorStore

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.llama_index import LMKEmbedding


def test_to_dict_round_trip(encoder):
    """A dict, and JSON of it, gives the object back with every option, device included."""
    made = LMKEmbedding(
        device="cpu",
        granularity=16,
        embed_batch_size=7,
        num_workers=2,
        embeddings_cache=SimpleKVStore(),
        dtype="float32",
    )
    data = json.loads(made.to_json())
    assert data["class_name"] == LMKEmbedding.class_name() == "LMKEmbedding"
    assert (data["device"], data["granularity"], data["embed_batch_size"]) == ("cpu", 16, 7)
    back = LMKEmbedding.from_dict(data)
    assert back.encoder.settings == made.encoder.settings
    assert back.to_dict() == made.to_dict()


def test_to_dict_tells_weights_apart(encoder, tmp_path):
    """IngestionCache sees other weights behind the same name: to_dict holds the fingerprint."""
    model = tmp_path / "model"
    shutil.copytree(encoder.directory, model)
    before = LMKEmbedding(model=model).to_dict()
    weights = model / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-2] ^= 1  # one bit of one weight
    weights.write_bytes(data)
    after = LMKEmbedding(model=model).to_dict()
    assert {key for key in before if before[key] != after[key]} == {"fingerprint"}


@pytest.mark.parametrize(
    "change",
    [{"pooling": "cls"}, {"document_prompt": "d: "}, {"truncate_dim": 64}, {"dtype": "bfloat16"}],
)
def test_ingestion_cache_sees_every_option(change):
    """Another option that changes vectors must not get the cached vectors of the first."""
    pipeline = IngestionPipeline(transformations=[LMKEmbedding(dtype="float32")])
    [first] = pipeline.run(documents=[Document(text="tea", id_="1")])
    pipeline.transformations = [LMKEmbedding(**{"dtype": "float32", **change})]
    [second] = pipeline.run(documents=[Document(text="tea", id_="1")])
    assert first.embedding != second.embedding


def test_pickling_leaves_the_original_whole(encoder):
    """What cannot travel stays behind, is replaced by a default, and is not lost here."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    debug.lock = threading.Lock()  # as handlers with a connection or a file have
    made = LMKEmbedding(encoder=encoder, callback_manager=CallbackManager([debug]))
    back = pickle.loads(pickle.dumps(made))
    assert made.callback_manager.handlers == [debug]
    assert made.encoder is encoder
    assert back.callback_manager.handlers == []
    assert back.get_text_embedding("tea") == made.get_text_embedding("tea")


DOCUMENTS = [Document(text=f"Number {n} is a number. " * 20, id_=str(n)) for n in range(4)]


def test_pipeline_with_two_processes(encoder):
    """num_workers=2: the model reloads in each process and gives the same vectors."""
    # No SentenceSplitter: unpickled, it fetches its tokenizer from the network, and a pool waits
    # for ever when unpickling raises OSError.
    pipeline = IngestionPipeline(
        transformations=[LMKEmbedding(encoder=encoder)], disable_cache=True
    )
    alone = pipeline.run(documents=DOCUMENTS)
    together = pipeline.run(documents=DOCUMENTS, num_workers=2)
    assert len(alone) == len(together) == len(DOCUMENTS)
    assert [node.text for node in alone] == [node.text for node in together]
    np.testing.assert_allclose(
        [node.embedding for node in alone], [node.embedding for node in together], atol=1e-5
    )


async def test_pipeline_into_a_vector_store(encoder):
    """Sync and async pipelines fill a vector store."""
    for run in ("run", "arun"):
        store = SimpleVectorStore()
        pipeline = IngestionPipeline(
            transformations=[LMKEmbedding(encoder=encoder)], vector_store=store
        )
        nodes = getattr(pipeline, run)(documents=DOCUMENTS)
        if run == "arun":
            nodes = await nodes
        assert sorted(store.data.embedding_dict) == sorted(node.node_id for node in nodes)


def test_unpickling_needs_no_model(monkeypatch):
    """An object may be received where its model is not, as long as it is not used there."""
    data = pickle.dumps(LMKEmbedding(granularity=16))

    def refuse(*_args, **_kwargs):
        raise AssertionError("opened a model")

    monkeypatch.setattr(LMKEncoder, "__init__", refuse)
    assert pickle.loads(data).granularity == 16
