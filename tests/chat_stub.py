"""A local server that speaks enough of OpenAI's chat API, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "So it stands there [1], as the stub says [2]."
REWRITTEN = "When was Peter Quint seen on the tower?"


class ChatStub:
    """url: for OPENAI_BASE_URL; requests: the bodies, in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []

    def answer(self, body: dict[str, Any]) -> str:
        """A rewritten question where one is asked for, else always the same answer."""
        self.requests.append(body)
        first = str(body["messages"][0]["content"])
        return REWRITTEN if first.startswith("Rewrite the last question") else ANSWER


@contextmanager
def chat_stub() -> Iterator[ChatStub]:
    """Serve on the loopback interface until the context is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            assert self.path.endswith("/chat/completions")
            text = stub.answer(body)
            self.send_response(200)
            if not body.get("stream"):
                message = {"role": "assistant", "content": text}
                self._finish("application/json", json.dumps(_completion("message", message)))
                return
            words = text.split(" ")
            deltas = [word + " " * (n < len(words) - 1) for n, word in enumerate(words)]
            events = [json.dumps(_completion("delta", {"content": delta})) for delta in deltas]
            body_text = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
            self._finish("text/event-stream", body_text)

        def _finish(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = ChatStub(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _completion(part: str, value: dict[str, Any]) -> dict[str, Any]:
    kind = "chat.completion.chunk" if part == "delta" else "chat.completion"
    choice = {"index": 0, part: value, "finish_reason": None if part == "delta" else "stop"}
    return {"id": "1", "object": kind, "created": 1, "model": "stub", "choices": [choice]}
