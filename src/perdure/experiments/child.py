"""The process of one run: reads what to do from its input, tells its parent how it goes.

`python -m perdure.experiments.child` is started by `side_by_side`, never by hand. Its input stays
open as long as the parent lives: when it ends, so does the run, with what was recorded.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from ..record import RecordError

if TYPE_CHECKING:
    from ..evaluation.live import Live

__all__ = ["main"]

REFRESH = 0.2  # seconds between two messages
GRACE = 10  # seconds to end in, once the parent is gone


def main() -> int:
    """Run what the first line of the input says and return the exit code."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a user's model prints is no message of ours
    # A process that the user's code forks must not keep the parent waiting for more messages.
    os.register_at_fork(after_in_child=partial(os.close, told.fileno()))
    try:
        return _code(told)
    finally:
        with suppress(OSError):  # nobody listens any more
            told.close()


def _code(told: TextIO) -> int:
    try:
        line = _first_line()
        if not line:  # the parent ended before it said anything
            return 130
        threading.Thread(target=_end_with_parent, daemon=True).start()
        signal.signal(signal.SIGINT, _interrupted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held back until here
        warnings.showwarning = lambda message, *_, **__: _tell(told, note=str(message))
        _run(json.loads(line), told)
    except KeyboardInterrupt:
        return 130
    except (ValueError, RuntimeError, OSError, MemoryError) as error:
        plain = isinstance(error, ValueError | RecordError) or "out of memory" in str(error)
        detail = "" if plain else traceback.format_exc()
        _tell(told, error=str(error) or type(error).__name__, detail=detail)
        return 2 if isinstance(error, ValueError) else 1
    except Exception as error:
        _tell(told, error=f"{type(error).__name__}: {error}", detail=traceback.format_exc())
        return 1
    return 0


def _interrupted(*_: object) -> None:
    """End once: another interrupt would hit the record while it is put in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _first_line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and (more := os.read(0, 1)):
        line += more
    return bytes(line)


def _run(job: dict[str, Any], told: TextIO) -> None:
    import msgspec

    from .description import Description
    from .run import run

    following = 0.0

    def progress(share: float, live: Live) -> None:
        nonlocal following
        if time.monotonic() >= following or share >= 1:
            following = time.monotonic() + REFRESH
            _tell(told, share=share, task=live.task, current=live.current, min_acc=live["min_acc"])

    description = msgspec.convert(job["description"], Description)
    run(description, job["folder"], overwrite=job["overwrite"], progress=progress)


def _tell(told: TextIO, **message: Any) -> None:
    try:
        told.write(json.dumps(message) + "\n")
    except OSError:
        signal.raise_signal(signal.SIGINT)  # nobody listens any more


def _end_with_parent() -> None:
    """Wait for the end of the input, then end this process: kindly, and then for sure."""
    while os.read(0, 4096):  # not sys.stdin, whose lock the end of this program would wait for
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
