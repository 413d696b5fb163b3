"""`perdure run` in processes to be killed by test_training_kills.py; PyTorch is imported once.

Each is a process of its own that does what the command does, its runs inside it. It may be told to
kill itself at a moment that nobody outside could hit: in the middle of a write, say.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from safetensors.torch import save

from perdure import execution
from perdure.cli import main
from perdure.data import load
from perdure.record import RunWriter, replace_file
from perdure.training import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perdure.execution import Job
    from perdure.execution.events import OnEvent

TOUCHED = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counted(count: int, then: Callable[..., Any], else_: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is `else_`, but `then` when it is called the `count`-th time."""
    left = count

    def called(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        return (else_ if left else then)(*given, **named)

    return called


def arm(kind: str, count: int, store: str) -> None:
    """Have this process kill itself the `count`-th time that it comes to a moment."""
    writes, save_checkpoint = os.pwrite, checkpoint.save_checkpoint

    def half(path: Path, data: bytes) -> None:
        path.with_name(f".{path.name}.0.new").write_bytes(data[: len(data) // 2])
        die()

    def torn(file: int, data: bytes, place: int) -> int:
        writes(file, data[: len(data) // 2], place)
        die()
        return 0

    def saved(*given: Any) -> None:
        save_checkpoint(*given)
        die()

    killed = counted(count, lambda *_: die(), lambda *_: None)

    def heard(event: str, given: tuple[Any, ...]) -> None:
        if event in TOUCHED and (isinstance(given[0], int) or str(given[0]).startswith(store)):
            killed()

    if kind == "half":  # a checkpoint is written
        patch.object(checkpoint, "replace_file", counted(count, half, replace_file)).start()
    elif kind == "between":  # the record has been synced for it
        dies = counted(count, lambda *_, **__: die(), save)
        patch.object(checkpoint, "save", dies).start()
    elif kind == "renamed":  # it has just taken the place of the last one
        dies = counted(count, saved, save_checkpoint)
        patch.object(checkpoint, "save_checkpoint", dies).start()
    elif kind == "torn":  # a line or hits are appended
        os.pwrite = counted(count, torn, writes)
    elif kind == "closing":  # nothing but done.json is missing
        RunWriter.finish = lambda *_, **__: die()  # type: ignore[method-assign]
    elif kind == "operation":  # a file of the store is opened, renamed, removed or cut
        sys.addaudithook(heard)
    else:
        raise ValueError(kind)


def run(arguments: Sequence[str], moment: tuple[str, int] | None) -> None:
    """Do what `perdure run` does, with the runs in this process."""

    def here(jobs: Sequence[Job], on_event: OnEvent, *, max_parallel: int | None) -> None:
        execution.run_serially(jobs, lambda *_: None)

    patch.object(execution, "run_in_processes", here).start()
    sys.argv = ["perdure", "run", *arguments]
    if moment is not None:
        arm(*moment, arguments[arguments.index("--store") + 1])
    main()


def serve() -> None:
    """Start a process for each line that asks for one, and answer with its id."""
    import torch

    # The bars, what counts operations, every strategy: what the runs would import one by one.
    for name in ("rich.progress", "torch._dynamo", "tests.strategy_helpers"):
        importlib.import_module(name)
    load("digits")
    torch.set_num_threads(1)
    gc.freeze()  # nothing to look through when a process ends
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.setsid()
            out = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(out, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            run(request["start"], request["moment"])
            return
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
