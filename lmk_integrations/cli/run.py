"""Commands: arguments -> calls -> printed results and exit codes."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any

from lmk_integrations.cli.progress import IngestProgress
from lmk_integrations.cli.render import print_hits, print_info, print_report, safe
from lmk_integrations.errors import (
    ConfigError,
    LMKError,
    StoreError,
    StoreLockedError,
    StoreUnreachableError,
)

EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_ITEMS_FAILED, EXIT_UNREACHABLE = 0, 1, 2, 3, 4
EXIT_INTERRUPTED = 130


def run(arguments: argparse.Namespace) -> int:
    """Run the command chosen; errors become one line on stderr and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="lmk: %(message)s", stream=sys.stderr)
    # The first request says the same, as an error with a remedy.
    warnings.filterwarnings("ignore", message="Failed to obtain server version")
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "ingest": _ingest,
        "search": _search,
        "delete": _delete,
        "info": _info,
        "verify": _verify,
        "copy": _copy,
        "eval": _eval,
        "adapt": _adapt,
        "train": _train,
        "mine": _mine,
        "bench": _bench,
    }
    for stream in (sys.stdout, sys.stderr):
        # A file name or a text that this terminal cannot show must not end the command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = commands[arguments.command](arguments)
        sys.stdout.flush()
        return code
    except ConfigError as error:
        return _complain(error, EXIT_USAGE)
    except StoreUnreachableError as error:
        return _complain(f"{error}\nWhat was stored is kept: run again to resume", EXIT_UNREACHABLE)
    except StoreLockedError as error:
        return _complain(error, EXIT_UNREACHABLE)
    except LMKError as error:
        return _complain(error, EXIT_FAILURE)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is wrong, nothing can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        return _complain(error, EXIT_FAILURE)


def _complain(what: object, code: int) -> int:
    # Names of files may stand in it, and files may be called anything.
    print("\n".join(safe(line) for line in f"lmk: {what}".split("\n")), file=sys.stderr)
    return code


def _is_there(location: str) -> bool:
    return location == ":memory:" or "://" in location or Path(location).expanduser().exists()


def _existing(arguments: argparse.Namespace) -> str:
    """The location, unless looking there would make a new store."""
    location: str = arguments.location
    if not _is_there(location):
        raise StoreError(f"there is no store at {location}; pass --to, or ingest into it first")
    return location


def _encoder(arguments: argparse.Namespace) -> Any:
    from lmk_integrations.encoder import LMKEncoder

    granularity = getattr(arguments, "granularity", None)
    return LMKEncoder(
        arguments.model,
        device=arguments.device,
        dtype=arguments.dtype,
        backend=arguments.backend,
        compile=arguments.compile,
        granularity=granularity,
    )


def _ingest(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.copy_run import check_rebuild, run_rebuild
    from lmk_integrations.cli.ingest_options import paths_and_options
    from lmk_integrations.qdrant import LandmarkIndex

    check_rebuild(arguments)
    paths, options = paths_and_options(arguments)
    given = [str(path.absolute()) for path in paths]
    if arguments.rebuild:
        with _stop_on_interrupt() as stop:
            return run_rebuild(arguments, lambda: _encoder(arguments), paths, options, stop)
    location = arguments.location
    if arguments.dry_run and not _is_there(location):
        location = ":memory:"  # a dry run makes no store
    index = LandmarkIndex(
        location,
        arguments.collection,
        _encoder(arguments),
        section_tokens=arguments.section_tokens,
        language=arguments.language,
        landmark_datatype=arguments.landmark_datatype,
    )
    with index, _stop_on_interrupt() as stop, IngestProgress(paths, options) as progress:
        report = index.ingest(
            paths,
            options=options,
            prune=arguments.prune,
            dry_run=arguments.dry_run,
            fail_fast=arguments.fail_fast,
            on_progress=progress.update,
            stop=stop,
        )
    if arguments.json:
        result = {"type": "result", "command": "ingest", "paths": given, **report.to_dict()}
        print(json.dumps(result))
    else:
        print_report(report, arguments.collection, arguments.location)
    if report.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_ITEMS_FAILED if report.failed else EXIT_OK


def _search(arguments: argparse.Namespace) -> int:
    from lmk_integrations.qdrant import LandmarkIndex

    encoder = None if arguments.mode == "bm25" else _encoder(arguments)
    with LandmarkIndex(_existing(arguments), arguments.collection, encoder) as index:
        hits = index.search(
            arguments.query,
            arguments.limit,
            mode=arguments.mode,
            per_document=1 if arguments.by_document else None,
            passage_tokens=arguments.passage_tokens,
        )
    if arguments.json:
        found = [hit.to_dict() for hit in hits]
        print(json.dumps({"type": "result", "command": "search", "hits": found}))
    else:
        print_hits(hits)
    return EXIT_OK


def _delete(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.documents import did_you_mean, similar_ids
    from lmk_integrations.qdrant import LandmarkIndex

    with LandmarkIndex(_existing(arguments), arguments.collection) as index:
        if not index.exists:
            raise StoreError(f"there is no collection {arguments.collection!r}")
        missing = [doc for doc in arguments.documents if index.count(doc) == 0]
        deleted = index.delete(arguments.documents)
        meant = similar_ids(index, missing)
    if arguments.json:
        result = {"type": "result", "command": "delete", "deleted": deleted, "missing": missing}
        print(json.dumps(result))
    else:
        print(f"deleted {deleted} of {len(arguments.documents)} documents")
    for doc in missing:
        what = f"{doc}: no such document in {arguments.collection!r}{did_you_mean(meant[doc])}"
        _complain(what, EXIT_ITEMS_FAILED)
    return EXIT_ITEMS_FAILED if missing else EXIT_OK


def _info(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.documents import print_documents
    from lmk_integrations.qdrant import LandmarkIndex, collection_names, connect

    if arguments.documents:
        if not arguments.collection:
            raise ConfigError("--documents lists those of one collection: name it with -c")
        with LandmarkIndex(_existing(arguments), arguments.collection) as index:
            print_documents(index, as_json=arguments.json)
        return EXIT_OK
    client = connect(_existing(arguments))
    try:
        names = [arguments.collection] if arguments.collection else collection_names(client)
        found = [LandmarkIndex(client, name).info() for name in names]
    finally:
        client.close()
    if arguments.json:
        print(json.dumps({"type": "result", "command": "info", "collections": found}))
    else:
        print_info(found, arguments.location)
    return EXIT_OK


def _verify(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.verify_run import run_verify

    location = _existing(arguments)
    with _stop_on_interrupt() as stop:
        return run_verify(arguments, location, lambda: _encoder(arguments), stop)


def _copy(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.copy_run import run_copy

    with _stop_on_interrupt() as stop:
        return run_copy(arguments, stop)


def _eval(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.eval_run import run_eval  # loads the encoder's libraries

    return run_eval(arguments)


def _adapt(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.adapt_run import run_adapt

    with _stop_on_interrupt() as stop:
        return run_adapt(arguments, stop)


def _train(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.train_run import run_train

    with _stop_on_interrupt() as stop:
        return run_train(arguments, stop)


def _mine(arguments: argparse.Namespace) -> int:
    from lmk_integrations.cli.train_run import run_mine

    return run_mine(arguments)


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.bench == "pooling":
        from lmk_integrations.cli.pooling_run import run_pooling

        with _stop_on_interrupt() as stop:
            return run_pooling(arguments, stop)
    from lmk_integrations.cli.bench_run import run_bench

    return run_bench(arguments)


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """The first Ctrl-C finishes the batch in flight; a second one ends at once."""
    stop = threading.Event()

    def ask(_: int, __: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        # Not print: the handler may have interrupted one.
        os.write(2, b"lmk: finishing the batch in flight; press again to end now\n")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
