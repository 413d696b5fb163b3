"""A process for runs: reads what to do from its input, tells its parent how it goes.

`python -m perdure.execution.pool_worker` is started by `process_pool`, never by hand. Its input
stays open as long as the parent lives: when it ends, so does the run, with what was recorded.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

from ..evaluation.recorder import EvaluationWarning
from .jobs import Job, perform

__all__ = ["main"]

GRACE = 10  # seconds to end in, once the parent is gone
ALONE = threading.Event()  # set once the parent is gone


def main() -> int:
    """Do what each line of the input says, and return the exit code."""
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
        line = _next_line()
        if not line:  # the parent ended before it said anything
            return 130
        wanted: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(wanted,), daemon=True).start()
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as by `perdure run … &`
        signal.signal(signal.SIGINT, partial(_interrupted, ignored))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held back until here
        tell = partial(_tell, told)
        warnings.showwarning = lambda message, *_, **__: tell({"note": str(message)})
        warnings.simplefilter("always", EvaluationWarning)  # a second run may say the same
        while True:
            code = perform(Job.of(json.loads(line)), tell)
            tell({"ended": code})
            line = wanted.get()
    except KeyboardInterrupt:
        return 130


def _interrupted(ignored: bool, *_: object) -> None:
    """End once: another interrupt would hit the record while it is put in order.

    A process that was started to ignore interrupts ends with its parent only.
    """
    if ignored and not ALONE.is_set():
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _next_line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and (more := os.read(0, 1)):
        line += more
    return bytes(line)


def _tell(told: TextIO, message: dict[str, Any]) -> None:
    try:
        told.write(json.dumps(message) + "\n")
    except OSError:  # nobody listens any more
        ALONE.set()
        signal.raise_signal(signal.SIGINT)


def _listen(wanted: queue.SimpleQueue[bytes]) -> None:
    """Hand on what is to be done next; when the input ends, end this process: kindly, then surely.

    It reads the input itself: sys.stdin has a lock that the end of this program would wait for.
    """
    while line := _next_line():
        wanted.put(line)
    ALONE.set()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # at once: taking PyTorch down needs a second
