"""Run by the tests: writes to a store, is killed, checks the store, again and again.

Arguments: the store, the number of rounds. Each round forks a writer, which never comes to an end
by itself, and then a checker.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from qdrant_client import models as m

from lmk_integrations.qdrant.edge import EdgeClient

BATCH = 20
State = dict[int, dict[str, Any]]


def kind_of(number: int) -> str:
    """What the change of this number is."""
    for step, kind in ((29, "optimize apart"), (23, "optimize"), (19, "back up"), (11, "flush"),
                       (7, "delete"), (5, "set payload"), (3, "replace")):  # fmt: skip
        if number % step == step - 1:
            return kind
    return "insert"


def ids_of(number: int, kind: str) -> list[int]:
    """The points that it touches."""
    batch = number if kind == "insert" else random.Random(number).randrange(number + 1)
    return list(range(batch * BATCH, (batch + 1) * BATCH))


def change(client: EdgeClient, number: int, copies: Path, state: State) -> None:
    """Do it."""
    kind = kind_of(number)
    ids = ids_of(number, kind)
    if kind in ("insert", "replace"):
        client.upsert("c", [point(id_, number) for id_ in ids])
    elif kind == "set payload":
        if there := [id_ for id_ in ids if id_ in state]:  # others would be an error
            client.set_payload("c", {"marked": number}, there)
    elif kind == "delete":
        client.delete("c", ids)
    elif kind == "flush":
        client.flush("c")
    elif kind == "optimize":
        client.optimize("c")
    elif kind == "optimize apart":
        client.optimize_apart("c")
    else:
        client.backup(copies / str(number))


def point(id_: int, number: int) -> SimpleNamespace:
    rng = random.Random(f"{id_} {number}")
    vectors = {
        "v": [rng.uniform(-1, 1) for _ in range(8)],
        "l": [[rng.uniform(-1, 1) for _ in range(8)] for _ in range(1 + id_ % 5)],
        "s": SimpleNamespace(indices=[1, 2 + id_ % 50], values=[1.0, 0.5]),
    }
    return SimpleNamespace(id=id_, vector=vectors, payload={"made": number})


def after(state: State, number: int) -> State:
    """The payloads by id when it is done."""
    kind = kind_of(number)
    ids = ids_of(number, kind)
    changed = dict(state)
    for id_ in ids:
        if kind in ("insert", "replace"):
            changed[id_] = {"made": number}
        elif kind == "set payload" and id_ in changed:
            changed[id_] = {**changed[id_], "marked": number}
        elif kind == "delete":
            changed.pop(id_, None)
    return changed


def create(client: EdgeClient) -> None:
    cosine = {"size": 8, "distance": m.Distance.COSINE}
    many = m.MultiVectorConfig(comparator=m.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        "c",
        {"v": m.VectorParams(**cosine), "l": m.VectorParams(**cosine, multivector_config=many)},
        {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)},
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=10),
    )
    client.create_payload_index("c", "made", m.PayloadSchemaType.INTEGER)


def write(store: Path, first: int, state: State, acknowledge: int) -> None:
    """Change after change, each acknowledged when it is done."""
    client = EdgeClient(store)
    if not client.collection_exists("c"):
        create(client)
    os.write(acknowledge, b"ready\n")
    number = first
    while True:
        change(client, number, store.parent / "copies", state)
        os.write(acknowledge, f"{number}\n".encode())
        state = after(state, number)
        number += 1


def check(store: Path, state: State, maybe: State) -> State:
    """What is stored, which is one state or the other, in every point."""
    with EdgeClient(store) as client:
        found: State = {}
        vectors: dict[int, Any] = {}
        for record in client.scroll("c", limit=1_000_000, with_vectors=True)[0]:
            found[int(record.id)] = dict(record.payload)
            vectors[int(record.id)] = record.vector
        assert client.count("c").count == len(found)
        assert found in (state, maybe), _difference(found, state, maybe)
        for id_, vector in vectors.items():
            assert len(vector["l"]) == 1 + id_ % 5, f"point {id_} lost rows"
            assert set(vector) == {"v", "l", "s"}
        query = [1.0] * 8
        assert len(client.query_points("c", query, using="l", limit=3).points) == min(3, len(found))
        return found


def _difference(found: State, state: State, maybe: State) -> str:
    odd = [i for i in {*found, *state} if found.get(i) not in (state.get(i), maybe.get(i))]
    return f"points {odd[:5]} are as in neither state: {[found.get(i) for i in odd[:5]]}"


def forked(work: Any) -> int:
    """The process id of a child that does this and ends."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def one_round(store: Path, state: State, number: int, rng: random.Random) -> tuple[State, int, str]:
    """The state afterwards, the next number, and what was in flight at the end."""
    read, written = os.pipe()
    writer = forked(lambda: write(store, number, state, written))
    os.close(written)
    with os.fdopen(read) as acknowledged:
        assert acknowledged.readline() == "ready\n"
        # Its progress and not the clock decides, so that a busy machine tests as much.
        lines = [acknowledged.readline() for _ in range(rng.randrange(25))]
        time.sleep(rng.expovariate(1 / 0.005))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        for line in (*lines, *acknowledged):
            assert int(line) == number
            state = after(state, number)
            number += 1
    result = store.parent / "state.json"
    maybe = after(state, number)
    checker = forked(lambda: result.write_text(json.dumps(check(store, state, maybe))))
    assert os.waitpid(checker, 0)[1] == 0, f"the store is wrong after change {number}"
    state = {int(id_): payload for id_, payload in json.loads(result.read_text()).items()}
    # What was in flight may be done or not: it is done again under its own number.
    return state, number, kind_of(number)


def main() -> None:
    store, rounds = Path(sys.argv[1]), int(sys.argv[2])
    copies = store.parent / "copies"
    rng = random.Random(0)
    state: State = {}
    number = 0
    in_flight: Counter[str] = Counter()
    for _ in range(rounds):
        copies.mkdir()
        state, number, kind = one_round(store, state, number, rng)
        in_flight[kind] += 1
        shutil.rmtree(copies)
    print(json.dumps({"rounds": rounds, "acknowledged": number, "in_flight": in_flight}))


if __name__ == "__main__":
    main()
