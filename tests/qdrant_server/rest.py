"""Qdrant's REST interface, as far as this package and the two frameworks speak it."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from qdrant_client import models as m

from .behind import Behind, RefusedError
from .faults import Faults

Model = TypeVar("Model", bound=BaseModel)

_SELECTOR: TypeAdapter[Any] = TypeAdapter(m.PointsSelector)
_ALIASES: TypeAdapter[Any] = TypeAdapter(list[m.AliasOperations])
_POINTS: TypeAdapter[Any] = TypeAdapter(m.PointInsertOperations)


def _where(given: dict[str, Any]) -> Any:
    """The points that a request names, by ids or by a filter."""
    chosen = {key: given[key] for key in ("points", "filter") if given.get(key) is not None}
    selector = _SELECTOR.validate_python(chosen)
    return selector.points if isinstance(selector, m.PointIdsList) else selector


def _upsert(given: dict[str, Any]) -> tuple[Any, ...]:
    read = _POINTS.validate_python(given)
    points = read.points if isinstance(read, m.PointsList) else read.batch
    return points, read.update_filter, read.update_mode


def _vectors(given: dict[str, Any]) -> tuple[Any, ...]:
    read = m.UpdateVectors.model_validate(given)
    return read.points, read.update_filter


def _set_payload(given: dict[str, Any]) -> tuple[Any, ...]:
    return given["payload"], _where(given), given.get("key")


def _count(given: dict[str, Any]) -> tuple[Any, ...]:
    read = m.CountRequest.model_validate(given)
    return read.filter, bool(read.exact)


def _retrieve(given: dict[str, Any]) -> tuple[Any, ...]:
    read = m.PointRequest.model_validate(given)
    payload = True if read.with_payload is None else read.with_payload
    return read.ids, payload, read.with_vector or False


def _index(given: dict[str, Any]) -> tuple[Any, ...]:
    schema = given["field_schema"]
    kind = schema if isinstance(schema, str) else schema["type"]
    return given["field_name"], m.PayloadSchemaType(kind)


def _one(model: type[Model]) -> Callable[[dict[str, Any]], tuple[Model]]:
    return lambda given: (model.model_validate(given),)


def _nothing(_: dict[str, Any]) -> tuple[Any, ...]:
    return ()


# Below /collections/NAME: verb, path -> operation, and its arguments from the body.
_ROUTES: dict[tuple[str, str], tuple[str, Callable[[dict[str, Any]], tuple[Any, ...]]]] = {
    ("GET", ""): ("get_collection", _nothing),
    ("PUT", ""): ("create_collection", _one(m.CreateCollection)),
    ("PATCH", ""): ("update_collection", _one(m.UpdateCollection)),
    ("DELETE", ""): ("delete_collection", _nothing),
    ("GET", "/exists"): ("collection_exists", _nothing),
    ("GET", "/aliases"): ("collection_aliases", _nothing),
    ("PUT", "/index"): ("create_index", _index),
    ("PUT", "/points"): ("upsert", _upsert),
    ("POST", "/points"): ("retrieve", _retrieve),
    ("POST", "/points/delete"): ("delete", lambda given: (_where(given),)),
    ("POST", "/points/payload"): ("set_payload", _set_payload),
    ("PUT", "/points/payload"): ("overwrite_payload", lambda given: _set_payload(given)[:2]),
    ("POST", "/points/payload/delete"): (
        "delete_payload",
        lambda given: (given["keys"], _where(given)),
    ),
    ("POST", "/points/payload/clear"): ("clear_payload", lambda given: (_where(given),)),
    ("PUT", "/points/vectors"): ("update_vectors", _vectors),
    ("POST", "/points/vectors/delete"): (
        "delete_vectors",
        lambda given: (given["vector"], _where(given)),
    ),
    ("POST", "/points/scroll"): ("scroll", _one(m.ScrollRequest)),
    ("POST", "/points/count"): ("count", _count),
    ("POST", "/points/query"): ("query", _one(m.QueryRequest)),
    ("POST", "/points/query/batch"): (
        "query_batch",
        lambda given: (m.QueryRequestBatch.model_validate(given).searches,),
    ),
    ("POST", "/points/query/groups"): ("query_groups", _one(m.QueryGroupsRequest)),
    ("POST", "/facet"): ("facet", _one(m.FacetRequest)),
}
_COLLECTION = re.compile(r"^/collections/([^/]+)(/.*)?$")
WRITES = {"upsert", "delete", "update_vectors", "delete_vectors"} | {
    f"{verb}_payload" for verb in ("set", "overwrite", "delete", "clear")
}


def route(verb: str, path: str, given: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The operation that a request asks for, and its arguments. Raises RefusedError."""
    if path == "/collections/aliases":
        return "change_aliases", (_ALIASES.validate_python(given["actions"]),)
    if path == "/collections":
        return "list_collections", ()
    if path == "/aliases":
        return "get_aliases", ()
    found = _COLLECTION.match(path)
    if found is None:
        raise RefusedError(404, f"no such place: {path}")
    name, rest = unquote(found.group(1)), unquote(found.group(2) or "")
    if verb == "DELETE" and rest.startswith("/index/"):
        return "delete_index", (name, rest.removeprefix("/index/"))
    if (verb, rest) not in _ROUTES:
        raise RefusedError(404, f"no such place: {verb} {path}")
    op, arguments = _ROUTES[verb, rest]
    return op, (name, *arguments(given))


def shown(op: str, result: Any) -> Any:
    """A result as JSON values."""
    if op == "collection_exists":
        return {"exists": result}
    if op == "scroll":
        records, following = result
        return {"points": [_plain(one) for one in records], "next_page_offset": following}
    return _plain(result)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


class RestServer(ThreadingHTTPServer):
    """Serves a `Behind` with faults."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behind: Behind, faults: Faults, port: int = 0) -> None:
        self.behind = behind
        self.faults = faults
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed break their connections: no news."""

    def stop(self) -> None:
        """Close the port and every connection."""
        self.shutdown()
        for connection in list(self._connections):
            hang_up(connection)
        self.server_close()


def hang_up(connection: socket.socket) -> None:
    """Reset a connection, as a crash of the other side does."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RestServer

    def _serve(self) -> None:
        path = self.path.split("?")[0]
        if path == "/":
            self._send(200, {"title": "qdrant - vector search engine", "version": "1.19.0"})
            return
        n_bytes = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(n_bytes)
        op, status, result = "?", 200, None
        try:
            op, arguments = route(self.command, path, json.loads(body) if body else {})
        except (RefusedError, ValidationError, ValueError, KeyError) as error:
            self._refuse(getattr(error, "status", 400), f"Format error: {error}")
            return
        fault = self.server.faults.take(op, n_bytes)
        kind = fault.kind if fault is not None else None
        if fault is not None and kind == "answer":
            extra = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
            self._refuse(fault.status, fault.message, extra)
            return
        if fault is not None and kind == "stall":
            time.sleep(fault.seconds)
        if kind == "drop":
            self._hang_up()
            return
        if kind == "lose":
            result = {"status": "completed", "operation_id": 0} if op in WRITES else True
        else:
            try:
                result = shown(op, self.server.behind.do(op, *arguments))
            except RefusedError as error:
                self._refuse(error.status, str(error))
                return
        if self.server.faults.on_request is not None:
            self.server.faults.on_request(op)
        if kind == "cut":
            self._hang_up()
            return
        if kind == "wait_timeout":
            result = {**result, "status": "wait_timeout"}
        self._send(status, {"result": result, "status": "ok", "time": 0.0})

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _hang_up(self) -> None:
        self.close_connection = True
        hang_up(self.connection)

    def _refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, {"status": {"error": message}, "time": 0.0}, headers)

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: Any) -> None:
        pass
