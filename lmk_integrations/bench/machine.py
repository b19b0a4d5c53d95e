"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# What decides how fast matrices are multiplied.
_TELLING_FLAGS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
    *("asimddp", "i8mm", "bf16", "sve"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """cores: those this process may run on. memory_bytes: 0 where it is not known."""

    cpu: str
    cores: int
    flags: tuple[str, ...]
    memory_bytes: int
    system: str
    python: str

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        flags = f" ({', '.join(self.flags)})" if self.flags else ""
        memory = f", {self.memory_bytes / 2**30:.0f} GiB" if self.memory_bytes else ""
        cores = f"{self.cores} core{'' if self.cores == 1 else 's'}"
        return f"{self.cpu}{flags}, {cores}{memory}, {self.system}, Python {self.python}"


def describe_machine() -> Machine:
    """The machine at hand."""
    facts = cpu_facts(_read(Path("/proc/cpuinfo")))
    return Machine(
        cpu=facts.get("model name") or platform.processor() or platform.machine(),
        cores=_cores(),
        flags=telling_flags(facts.get("flags") or facts.get("Features") or ""),
        memory_bytes=_memory(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def cpu_facts(cpuinfo: str) -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo, by name."""
    first = cpuinfo.strip().split("\n\n")[0]
    return dict(_entries(first))


def telling_flags(flags: str) -> tuple[str, ...]:
    """Those of a processor's flags that matter here, in a fixed order."""
    there = set(flags.split())
    return tuple(flag for flag in _TELLING_FLAGS if flag in there)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    total = dict(_entries(_read(Path("/proc/meminfo")))).get("MemTotal", "").split()
    return int(total[0]) * 1024 if total and total[0].isdecimal() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
