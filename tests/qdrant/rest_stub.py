"""The part of Qdrant's REST interface that moving needs, in front of qdrant-client's own store.

What goes over the wire is real: a real QdrantClient, real JSON, real bodies. There is no Qdrant
server in these tests; with QDRANT_URL set, the tests of stores run against one besides.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import TypeAdapter
from qdrant_client import QdrantClient
from qdrant_client import models as m

PATH = re.compile(r"^/(?:collections(?:/([^/]+))?)?(/.*)?$")


@dataclass
class Traffic:
    """url: of the server. bodies: bytes of each request. broken: how many to answer with 503."""

    url: str = ""
    bodies: list[int] = field(default_factory=list)
    broken: int = 0


@contextmanager
def rest_server() -> Iterator[Traffic]:
    """A server that lives for as long as the block."""
    store = QdrantClient(":memory:")
    lock = threading.Lock()
    traffic = Traffic()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, result = 200, None
            with lock:
                traffic.bodies.append(len(body))
                if traffic.broken:
                    traffic.broken -= 1
                    status = 503
                else:
                    given = json.loads(body) if body else {}
                    result = respond(store, self.command, self.path.split("?")[0], given)
            told: Any = "ok" if status == 200 else {"error": "busy"}
            content = result if self.path == "/" else {"result": result, "status": told, "time": 0}
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *_arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        traffic.url = f"http://127.0.0.1:{httpd.server_port}"
        try:
            yield traffic
        finally:
            httpd.shutdown()
            store.close()


def dumped(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


def respond(store: QdrantClient, verb: str, path: str, given: dict[str, Any]) -> Any:
    if path == "/":
        return {"title": "qdrant - vector search engine", "version": "1.19.0"}
    if path == "/aliases":
        return dumped(store.get_aliases())
    if path == "/collections/aliases":
        actions = TypeAdapter(list[m.AliasOperations]).validate_python(given["actions"])
        return store.update_collection_aliases(actions)
    found = PATH.match(path)
    assert found is not None, path
    name, rest = found.group(1), found.group(2) or ""
    if name is None:
        return dumped(store.get_collections())
    if rest == "/exists":
        return {"exists": store.collection_exists(name)}
    if rest == "":
        return of_collection(store, verb, name, given)
    if rest == "/index":
        return {"status": "completed", "operation_id": 1}  # the local store keeps none
    return of_points(store, verb, name, rest, given)


def of_collection(store: QdrantClient, verb: str, name: str, given: dict[str, Any]) -> Any:
    if verb == "GET":
        return dumped(store.get_collection(name))
    if verb == "PUT":
        made = m.CreateCollection.model_validate(given)
        return store.create_collection(
            name, made.vectors, made.sparse_vectors, metadata=made.metadata
        )
    if verb == "PATCH":
        return store.update_collection(name, metadata=given.get("metadata"))
    return store.delete_collection(name)


def of_points(store: QdrantClient, verb: str, name: str, rest: str, given: dict[str, Any]) -> Any:
    wanted = m.Filter.model_validate(given["filter"]) if given.get("filter") else None
    what = {
        "with_payload": given.get("with_payload", True),
        "with_vectors": given.get("with_vector", False),
    }
    if verb == "PUT":
        points = m.PointsList.model_validate(given).points
        return dumped(store.upsert(name, points))
    if rest == "/points":
        return [dumped(record) for record in store.retrieve(name, given["ids"], **what)]
    if rest == "/points/scroll":
        records, following = store.scroll(
            name, wanted, given["limit"], offset=given.get("offset"), **what
        )
        return {"points": [dumped(one) for one in records], "next_page_offset": following}
    if rest == "/points/count":
        return dumped(store.count(name, wanted))
    if rest == "/points/delete":
        selector: Any = given["points"] if "points" in given else m.FilterSelector(filter=wanted)
        return dumped(store.delete(name, selector))
    raise AssertionError(f"{verb} {rest}")
