"""The process that evaluates snapshots: what it shares with the training process, what it does."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import struct
import threading
from enum import IntEnum
from typing import TYPE_CHECKING

import torch

from ..state.tensors import unique_tensors

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from torch import nn

    from .engine import Engine
    from .eval_batches import EvalBatches

__all__ = ["HEADER", "POLL_SECONDS", "STOP", "Status", "serve", "shared_like"]

HEADER = struct.Struct("<qqdii")  # slot, step, seconds, status, length of the warnings
STOP = -1  # in place of a slot: nothing follows
POLL_SECONDS = 5.0  # between checks whether the other process is alive


class Status(IntEnum):
    """How an evaluation ended."""

    OK = 0
    FAILED = 1
    HALF_PRECISION_OFF = 2  # it succeeded, and half precision was disabled, as it does not pay
    MISSED_PREDICTION = 3  # likewise, as it missed a wrong prediction


def shared_like(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors like the given ones in memory that a forked process shares.

    The memory is anonymous, and freed when the last process that uses it ends.
    """
    views = []
    for tensor in tensors:
        size = max(tensor.numel() * tensor.element_size(), 1)
        flat = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
        if tensor.numel() == 0:
            views.append(torch.empty_like(tensor))
        else:
            views.append(flat.view(tensor.dtype).as_strided(tensor.shape, _strides(tensor)))
    return views


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of a dense copy in the same memory order, by which kernels are chosen."""
    return tuple(torch.empty_like(tensor, device="meta").stride())


def serve(
    pipe: Connection,
    parent_pipe: Connection,
    engine: Engine,
    model: nn.Module,
    batches: EvalBatches,
    views: list[list[torch.Tensor]],
    threads: int,
    parent: int,
) -> None:
    """Evaluate snapshots until the training process closes the pipe or is gone.

    This runs in a new thread: OpenMP's threads do not survive a fork, but a new thread gets new
    ones.
    """
    gc.freeze()  # destructors of what the training process left behind are not safe to run here
    gc.enable()
    parent_pipe.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process handles interrupts

    def loop() -> None:
        torch.set_num_threads(threads)
        torch.clear_autocast_cache()  # of the step that was under way
        tensors = unique_tensors(model)
        while True:
            while not pipe.poll(POLL_SECONDS):
                if os.getppid() != parent:
                    return
            try:
                slot, step, *_ = HEADER.unpack(pipe.recv_bytes())
            except (EOFError, OSError):
                return
            if slot == STOP:
                return
            for tensor, view in zip(tensors, views[slot], strict=True):
                tensor.data = view
            try:
                pipe.send_bytes(_reply(engine, model, batches, slot, step))
            except OSError:
                return

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()


def _reply(engine: Engine, model: nn.Module, batches: EvalBatches, slot: int, step: int) -> bytes:
    messages: list[str] = []
    engine.warn, half_precision = messages.append, engine.precision.is_half
    try:
        engine.evaluate(model, batches, step)
        result = engine.collect_here(wait=True)[0]
    except Exception:  # of the user's own code, which fails in the training process as well
        return HEADER.pack(slot, step, 0.0, Status.FAILED, 0)
    warnings = "\n".join(messages).encode()
    dtype = result.values.dtype.str.encode()  # |b1, <f4 or <f8: three letters
    status = Status.OK
    if half_precision and not engine.precision.is_half:
        missed = engine.precision.has_missed
        status = Status.MISSED_PREDICTION if missed else Status.HALF_PRECISION_OFF
    header = HEADER.pack(slot, step, result.seconds, status, len(warnings))
    return header + warnings + dtype + result.values.tobytes()
