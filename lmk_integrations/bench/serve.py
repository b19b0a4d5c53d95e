"""A worker process: requests in, answers out, a line of JSON each.

    python -I serve.py FILE NAME

loads FILE, which must have a function ``open_worker(name)``, and serves the methods of the object
that it returns. Needs nothing but Python: it runs in environments without this package.

A request is ``{"call": method, "with": {argument: value}}``, its answer ``{"result": value}`` or
``{"error": text}``. The method ``about`` is served here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO


def main(file: str, name: str) -> None:
    """Serve until the requests end."""
    answers = _private_stdout()
    worker: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if request["call"] == "about":
                result = about(**request["with"])
            else:
                worker = worker or _load(Path(file)).open_worker(name)
                result = getattr(worker, request["call"])(**request["with"])
            answer = {"result": result}
        except Exception as error:  # whatever a contender raises is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def about(packages: list[str]) -> dict[str, Any]:
    """Peak memory until now, and the versions of those packages that are installed."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")
    return {
        "peak_bytes": _peak_bytes(),
        "versions": versions,
        "python": platform.python_version(),
        "torch_threads": None if torch is None else torch.get_num_threads(),
    }


def _private_stdout() -> TextIO:
    """The pipe for answers; what libraries print goes to stderr from now on."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _peak_bytes() -> int:
    """The most memory that this process has held.

    Not of getrusage where it can be helped: Linux lets a child begin with its parent's peak.
    """
    try:
        for line in Path("/proc/self/status").read_text().split("\n"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main(*sys.argv[1:3])
