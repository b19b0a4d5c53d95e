"""What a server may do wrong, and a plan of when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["answer", "stall", "drop", "cut", "lose", "wait_timeout"]


@dataclass(frozen=True)
class Fault:
    """One misbehaviour.

    kind: "answer" with an HTTP status and do nothing; "stall" for a while before doing it; "drop"
        the connection and do nothing; do it and "cut" the connection; "lose" it but say it is
        done; do it but say "wait_timeout".
    op: the operation it befalls, such as "upsert"; None: any. after: how many of these pass first.
    times: how often it happens.
    """

    kind: Kind
    op: str | None = None
    after: int = 0
    times: int = 1
    status: int = 503
    message: str = "out of order"
    retry_after: str | None = None
    seconds: float = 0.0


@dataclass
class Faults:
    """The plan of a server, and what it has seen.

    max_bytes: of a request's body; a longer one is refused as Qdrant does it, with 400, or with
        ``too_large_status``. requests: the operation and size of each request, refused ones too.
    on_request: called with each operation's name when it has been done.
    """

    plan: list[Fault] = field(default_factory=list)
    max_bytes: int = 32 << 20
    too_large_status: int = 400
    requests: list[tuple[str, int]] = field(default_factory=list)
    on_request: Callable[[str], None] | None = None
    _seen: dict[int, int] = field(default_factory=dict)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def take(self, op: str, n_bytes: int) -> Fault | None:
        """What befalls this request."""
        with self._mutex:
            self.requests.append((op, n_bytes))
            if n_bytes > self.max_bytes:
                message = (
                    f"Payload error: JSON payload ({n_bytes} bytes) is larger than allowed "
                    f"(limit: {self.max_bytes} bytes)."
                )
                return Fault("answer", status=self.too_large_status, message=message)
            for number, fault in enumerate(self.plan):
                if fault.op not in (None, op):
                    continue
                seen = self._seen[number] = self._seen.get(number, 0) + 1
                if fault.after < seen <= fault.after + fault.times:
                    return fault
            return None

    def count(self, op: str) -> int:
        """Requests of one kind."""
        return sum(name == op for name, _ in self.requests)

    def mend(self) -> None:
        """Behave from now on."""
        with self._mutex:
            self.plan.clear()
            self._seen.clear()
