"""Evaluating snapshots of the weights in a forked process, through shared memory."""

from __future__ import annotations

import copy
import multiprocessing
import os
import sys
import warnings
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..._display import count_of
from ..schedules import Worker
from ..state.preserve import pause_garbage_collection
from ..state.tensors import unique_tensors, unshareable_kind
from .eval_batches import EvalResult
from .worker_process import HEADER, POLL_SECONDS, STOP, Status, serve, shared_like

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

    from torch import nn

    from .engine import Engine
    from .eval_batches import EvalBatches

__all__ = ["ProcessWorker"]

MAX_RESTARTS = 1


class ProcessWorker:
    """Evaluates snapshots in a forked process, which is replaced when tasks or shapes change.

    Exact: every snapshot is evaluated; while all slots are in use, the training process evaluates
    the model itself. Latest: a snapshot that finds no free slot is dropped, and only steps that
    were evaluated are recorded. A process that dies is restarted once with its unfinished
    snapshots; if it dies again, everything is evaluated inline.
    """

    def __init__(self, engine: Engine) -> None:
        assert isinstance(engine.executor, Worker)
        self._engine, self._verify_every = engine, engine.executor.verify_every
        self._latest = engine.executor.mode == "latest"
        self._slots = 1 if self._latest else engine.executor.queue
        self._batches: EvalBatches | None = None
        self._model: nn.Module | None = None
        self._shapes: list[tuple[torch.Size, torch.dtype]] = []
        self._snapshots: list[list[torch.Tensor]] = []  # in shared memory, one per slot
        self._slot_of: dict[int, int] = {}  # of each step that is being evaluated, in order
        self._order: deque[int] = deque()  # steps whose results were not collected yet
        self._results: dict[int, EvalResult] = {}
        self._expected: dict[int, EvalResult] = {}  # of evaluations to verify
        self._errors: list[Exception] = []  # of the user's own code, at snapshots
        self._process: ForkProcess | None = None
        self._pipe: Connection | None = None
        self._deaths = 0
        self._count = 0

    def submit(self, model: nn.Module, batches: EvalBatches, step: int) -> None:
        """Take a snapshot of `model` after `step` steps and have it evaluated."""
        self._receive()
        tensors = unique_tensors(model)
        shapes = [(tensor.shape, tensor.dtype) for tensor in tensors]
        if batches is not self._batches or shapes != self._shapes or model is not self._model:
            self._drain()
            self._stop()
            self._check_shareable(tensors)
            slots = range(self._slots if self._usable else 0)
            self._snapshots = [shared_like(tensors) for _ in slots]
            self._shapes, self._model = shapes, model
            self._batches = batches  # last: what an interrupt leaves half done is repeated
        free = set(range(self._slots)) - set(self._slot_of.values())
        if not self._usable or not (free or self._latest):
            self._order.append(step)
            self._results[step] = self._evaluate_here(model, step)
        elif free:
            self._send(tensors, free.pop(), step)

    def _check_shareable(self, tensors: list[torch.Tensor]) -> None:
        """Continue without a process if snapshots cannot be in shared memory."""
        kind = next((kind for tensor in tensors if (kind := unshareable_kind(tensor))), None)
        if kind is not None and self._usable:
            self._engine.warn(
                f"the model has a tensor that cannot be shared with a process ({kind}); it is "
                "evaluated inline"
            )
            self._give_up()

    def _give_up(self) -> None:
        """Evaluate in the training process from here on."""
        self._deaths = MAX_RESTARTS + 1

    @property
    def _usable(self) -> bool:
        """Whether a process is used at all."""
        return self._deaths <= MAX_RESTARTS

    def _send(self, tensors: list[torch.Tensor], slot: int, step: int) -> None:
        with torch.no_grad():
            for copy_, tensor in zip(self._snapshots[slot], tensors, strict=True):
                copy_.copy_(tensor)
        self._count += 1
        if self._count % self._verify_every == 0:
            self._expected[step] = self._evaluate_here(self._model, step)
        try:
            if self._process is None:
                self._start()
            self._order.append(step)
            self._slot_of[step] = slot
            self._post(slot, step)
        except BaseException:  # an interrupt: what was posted is unknown, so all is repeated
            self._stop()
            raise

    def _post(self, slot: int, step: int) -> None:
        if self._pipe is None:
            return  # no process could be started: `_drain` evaluates what was not posted
        try:
            self._pipe.send_bytes(HEADER.pack(slot, step, 0.0, Status.OK, 0))
        except OSError:
            self._handle_death()

    @property
    def has_results(self) -> bool:
        """Whether anything was submitted that was not collected yet."""
        return bool(self._order)

    def wait(self) -> None:
        """Wait until everything that was submitted is evaluated."""
        self._receive()
        self._drain()

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return completed evaluations in order; with `wait`, all of them."""
        self._receive()
        if wait:
            self._drain()
        results = []
        while self._order:
            step = self._order[0]
            if step in self._results:
                results.append(self._results.pop(step))
            elif step in self._slot_of:
                break
            self._order.popleft()  # if neither, an interrupt came before it was sent
        return results

    def next_error(self) -> Exception | None:
        """Return the next error that the user's own code raised at a snapshot, each once."""
        return self._errors.pop(0) if self._errors else None

    def close(self) -> None:
        """Stop the process."""
        self._stop()

    def _drain(self) -> None:
        while self._slot_of:
            self._receive(wait=True)

    def _receive(self, *, wait: bool = False) -> None:
        """Receive the replies of the process that are ready; with `wait`, at least one."""
        if self._pipe is None:  # no process is left
            for step, slot in list(self._slot_of.items()):
                self._evaluate_snapshot(slot, step)
        try:
            while self._pipe is not None and self._slot_of:
                reply = self._next_reply(wait=wait)
                if reply is None:
                    return
                self._take(reply)
                wait = False
        except KeyboardInterrupt:  # a reply may be half read: what is unfinished is repeated
            self._stop()
            raise

    def _next_reply(self, *, wait: bool) -> bytes | None:
        """Return the next reply of the process; None if there is none or if it died."""
        assert self._pipe is not None
        assert self._process is not None
        try:
            while not self._pipe.poll(POLL_SECONDS if wait else 0):
                if not self._process.is_alive():
                    raise EOFError
                if not wait:
                    return None
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            self._handle_death()
            return None

    def _take(self, reply: bytes) -> None:
        """Keep the result in a reply, and warn after that: warnings may be errors."""
        slot, step, seconds, status, length = HEADER.unpack_from(reply)
        dtype_at = HEADER.size + length
        messages = reply[HEADER.size : dtype_at].decode().splitlines()
        if status == Status.FAILED:
            self._evaluate_snapshot(slot, step)
        else:
            if status == Status.MISSED_PREDICTION:
                self._engine.precision.disable()
            elif status == Status.HALF_PRECISION_OFF and not self._engine.precision.disable():
                messages.clear()  # this process evaluates too, and has said so
            dtype = reply[dtype_at : dtype_at + 3].decode()
            assert self._batches is not None
            values = self._batches.shape(np.frombuffer(reply, dtype, offset=dtype_at + 3))
            result = EvalResult(step, self._batches, values, seconds)
            expected = self._expected.pop(step, result)
            if result.values.tobytes() != expected.values.tobytes():  # bits: NaN equals NaN
                messages.append(
                    f"the worker's results differ from an evaluation in the training process at "
                    f"step {step}: the model has state that is no parameter or buffer, or threads "
                    "differ. It is evaluated inline from here on; results since the last "
                    "verification may be wrong"
                )
                self._give_up()
            self._results[step] = expected
            del self._slot_of[step]
        for message in messages:
            self._engine.warn(message)

    def _evaluate_snapshot(self, slot: int, step: int) -> None:
        """Evaluate a snapshot in this process; an error of the user's own code is raised later."""
        try:
            self._results[step] = self._evaluate_with(self._snapshots[slot], step)
        except Exception as error:
            self._errors.append(error)
        del self._slot_of[step]  # last: an evaluation that an interrupt ends is repeated

    def _evaluate_here(self, model: object, step: int) -> EvalResult:
        assert self._batches is not None
        self._engine.evaluate(model, self._batches, step)
        *_, result = self._engine.collect_here(wait=True)  # after what an interrupt left, if any
        return result._replace(seconds=0.0)  # it is part of the training process's own time

    def _evaluate_with(self, snapshot: list[torch.Tensor], step: int) -> EvalResult:
        """Return the evaluation of a snapshot, in this process and on a copy of the model."""
        assert self._model is not None
        try:
            model = copy.deepcopy(self._model)
        except Exception:  # it keeps an output, say; then its weights are exchanged for a moment
            model = self._model
        tensors = unique_tensors(model)
        before = [tensor.data for tensor in tensors]
        try:
            for tensor, data in zip(tensors, snapshot, strict=True):
                tensor.data = data
            return self._evaluate_here(model, step)
        finally:
            for tensor, data in zip(tensors, before, strict=True):
                tensor.data = data

    def _handle_death(self) -> None:
        """Report that the process died, and have its unfinished snapshots evaluated."""
        assert self._process is not None and self._model is not None  # noqa: PT018
        self._process.join(POLL_SECONDS)
        exit_code, unfinished = self._process.exitcode, dict(self._slot_of)
        self._deaths += 1
        self._stop()
        pending = count_of(len(unfinished), "evaluation")
        event = f"the evaluation process died (exit code {exit_code}) with {pending} pending"
        shapes = [(tensor.shape, tensor.dtype) for tensor in unique_tensors(self._model)]
        if shapes != self._shapes:
            self._engine.warn(f"{event}, which are lost: the model has other shapes now")
            for step in unfinished:
                self._order.remove(step)
            self._slot_of.clear()
            return
        if not self._usable:
            self._engine.warn(f"{event}, again; the model is evaluated inline from here on")
            return
        self._engine.warn(f"{event}; it is restarted and completes them")
        self._start()
        for step, slot in unfinished.items():
            self._post(slot, step)

    def _start(self) -> None:
        try:
            if sys.platform == "darwin":
                raise OSError("on macOS, PyTorch does not work in a forked process")
            context = multiprocessing.get_context("fork")
            pipe, worker_pipe = context.Pipe()
            work = self._engine, self._model, self._batches, self._snapshots
            arguments = worker_pipe, pipe, *work, torch.get_num_threads(), os.getpid()
            self._process = context.Process(target=serve, args=arguments, daemon=True)
            # Python 3.12 warns of forks with threads: see serve, also for the garbage.
            with warnings.catch_warnings(), pause_garbage_collection():
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except (ValueError, OSError, AssertionError) as error:
            reason = f"no evaluation process can be started ({error})"
            self._give_up()
            self._engine.warn(f"{reason}; the model is evaluated inline")
            self._process = None
            return
        worker_pipe.close()
        self._pipe = pipe

    def _stop(self) -> None:
        pipe, process = self._pipe, self._process
        self._pipe = self._process = None
        if pipe is not None:
            with suppress(OSError):
                pipe.send_bytes(HEADER.pack(STOP, 0, 0.0, Status.OK, 0))
            pipe.close()
        if process is not None and process.pid is not None:  # None if it never started
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
