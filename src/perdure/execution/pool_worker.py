"""A process of the pool: receives jobs from its parent, does them in turn, sends their events.

`process_pool` starts it as `python -m perdure.execution.pool_worker FD`, never a user. The
connection stays open while the parent lives: when it ends, so does this process, and what was
recorded stays.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from .events import ExitEvent, encode_event
from .jobs import Job, decode_job, perform

if TYPE_CHECKING:
    from .events import RunEvent

__all__ = ["main"]

EXIT_SECONDS = 10  # to finish the record in, once the parent is gone
INTERRUPTED = 130
PARENT_GONE = threading.Event()


def main(connection: Connection) -> int:
    """Return the exit code after doing every job that the parent sends."""
    # Processes that the user's code starts must not keep the parent waiting for more events.
    os.set_inheritable(connection.fileno(), False)  # noqa: FBT003
    os.register_at_fork(after_in_child=connection.close)
    try:
        job = decode_job(connection.recv_bytes())
    except EOFError:  # the parent ended before it sent anything
        return INTERRUPTED
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_receive_jobs, args=(connection, jobs), daemon=True).start()
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as by `perdure run … &`
    try:
        signal.signal(signal.SIGINT, partial(_on_interrupt, ignored))
        import torch  # noqa: F401 - an interrupt in its C++ initialisers would abort the process

        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by the parent
        send = partial(_send, connection, threading.Lock())
        while True:
            send(ExitEvent(perform(job, send)))
            job = jobs.get()
    except KeyboardInterrupt:
        return INTERRUPTED


def _on_interrupt(ignored: bool, *_: object) -> None:
    """Raise KeyboardInterrupt once: a second one would hit the record while it is completed.

    A process that was started to ignore interrupts ends with its parent only.
    """
    if ignored and not PARENT_GONE.is_set():
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _send(connection: Connection, lock: threading.Lock, event: RunEvent) -> None:
    try:
        with lock:  # warnings may come from other threads
            connection.send_bytes(encode_event(event))  # `send` would pickle
    except OSError:
        PARENT_GONE.set()
        signal.raise_signal(signal.SIGINT)


def _receive_jobs(connection: Connection, jobs: queue.SimpleQueue[Job]) -> None:
    """Queue the jobs that arrive; when the parent is gone, interrupt this process, then end it."""
    with suppress(EOFError, OSError):
        while True:
            jobs.put(decode_job(connection.recv_bytes()))
    PARENT_GONE.set()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(EXIT_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    code = main(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: an orderly shutdown of PyTorch takes a second
