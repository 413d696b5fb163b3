"""The process that tests snapshots: what it shares with the trainer, and what it does."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import threading
from typing import TYPE_CHECKING

import torch

from .eval_batches import state_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from torch import nn

    from .eval_batches import EvalBatches
    from .inline import Inline

__all__ = ["END", "FAILED", "HEADER", "PATIENCE", "UNSCREENED", "WELL", "serve", "shared_like"]

HEADER = struct.Struct("<qqdii")  # slot, step, seconds, how it went, length of the notes
WELL, FAILED, UNSCREENED = range(3)  # the last: it went well, and screening was turned off
END = -1  # a slot that says that nothing follows
PATIENCE = 5.0  # seconds between looks whether the other process lives


def shared_like(state: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors like those of `state` in memory that a forked process shares.

    The memory has no name and goes with the last process that uses it.
    """
    views = []
    for tensor in state:
        size = max(tensor.numel() * tensor.element_size(), 1)
        flat = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
        if tensor.numel() == 0:
            views.append(torch.empty_like(tensor))
        else:
            views.append(flat.view(tensor.dtype).as_strided(tensor.shape, _strides(tensor)))
    return views


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of a dense copy in the same memory order: kernels choose by it."""
    return tuple(torch.empty_like(tensor, device="meta").stride())


def serve(
    pipe: Connection,
    theirs: Connection,
    inline: Inline,
    model: nn.Module,
    prepared: EvalBatches,
    views: list[list[torch.Tensor]],
    threads: int,
    parent: int,
) -> None:
    """Test snapshots until the trainer closes the pipe or is gone.

    In a thread of its own: OpenMP's threads do not survive a fork, but a new thread gets new ones.
    """
    theirs.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer decides what an interrupt means

    def loop() -> None:
        torch.set_num_threads(threads)
        torch.clear_autocast_cache()  # a step that was under way has left casts of its weights
        state = state_of(model)
        while True:
            while not pipe.poll(PATIENCE):
                if os.getppid() != parent:
                    return
            try:
                slot, step, *_ = HEADER.unpack(pipe.recv_bytes())
            except (EOFError, OSError):
                return
            if slot == END:
                return
            for tensor, view in zip(state, views[slot], strict=True):
                tensor.data = view
            try:
                pipe.send_bytes(_answer(inline, model, prepared, slot, step))
            except OSError:
                return

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()


def _answer(inline: Inline, model: nn.Module, prepared: EvalBatches, slot: int, step: int) -> bytes:
    notes: list[str] = []
    inline.say, screened = notes.append, inline.screens
    try:
        inline.submit(model, prepared, step)
        done = inline.collect(wait=True)[0]
    except Exception:  # the user's own code: the trainer meets the same error
        return HEADER.pack(slot, step, 0.0, FAILED, 0)
    said = "\n".join(notes).encode()
    kind = done.values.dtype.str.encode()  # |b1, <f4 or <f8: three letters
    how = UNSCREENED if screened and not inline.screens else WELL
    head = HEADER.pack(slot, step, done.seconds, how, len(said))
    return head + said + kind + done.values.tobytes()
