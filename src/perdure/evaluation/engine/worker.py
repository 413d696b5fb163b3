"""Testing in another process, on snapshots of the weights in shared memory."""

from __future__ import annotations

import copy
import multiprocessing
import os
import warnings
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..state.tensors import not_shareable
from .eval_batches import state_of
from .inline import EvalResult, Inline
from .worker_process import END, FAILED, HEADER, PATIENCE, UNSCREENED, WELL, serve, shared_like

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from .eval_batches import EvalBatches

__all__ = ["Worker"]

RESTARTS = 1


class Worker:
    """Tests snapshots in a forked process, which is forked anew when tasks or shapes change.

    Exact: every snapshot is tested; when all slots are in use the trainer tests the model itself.
    Latest: a snapshot that finds no free slot is dropped, and only steps that were tested are
    recorded. A process that dies is started once more with what it left undone; if it dies
    again, everything is tested inline.
    """

    def __init__(
        self, inline: Inline, *, latest: bool, slots: int, audit: int, say: Callable[[str], None]
    ) -> None:
        self._inline, self._latest, self._say, self._audit = inline, latest, say, audit
        self._slots = 1 if latest else slots
        self._prepared: EvalBatches | None = None
        self._shapes: list[Any] = []
        self._views: list[list[torch.Tensor]] = []
        self._sent: dict[int, int] = {}  # step -> slot, in order
        self._order: deque[int] = deque()
        self._done: dict[int, EvalResult] = {}
        self._expected: dict[int, EvalResult] = {}  # audits
        self.errors: list[Exception] = []  # of the user's own code, at snapshots
        self._deaths = 0
        self._process: Any = None
        self._pipe: Connection | None = None
        self._model: Any = None
        self._count = 0

    def submit(self, model: Any, prepared: EvalBatches, step: int) -> None:
        """Take a snapshot of `model` after `step` steps and have it tested."""
        self._receive()
        state = state_of(model)
        shapes = [(tensor.shape, tensor.dtype) for tensor in state]
        if prepared is not self._prepared or shapes != self._shapes or model is not self._model:
            self._drain()
            self._stop()
            self._check(state)
            self._views = [shared_like(state) for _ in range(self._slots)] if self._usable else []
            self._shapes, self._model = shapes, model
            self._prepared = prepared  # last: what an interrupt leaves half done is done again
        free = set(range(self._slots)) - set(self._sent.values())
        if not self._usable or not (free or self._latest):
            self._order.append(step)
            self._done[step] = self._tested(model, step)
        elif free:
            self._send(state, free.pop(), step)

    def _check(self, state: list[torch.Tensor]) -> None:
        """Go on without a process if it cannot be given a snapshot."""
        kind = next((kind for tensor in state if (kind := not_shareable(tensor))), None)
        if kind is not None and self._usable:
            self._say(
                f"the model has a tensor that no other process can be given ({kind}); the trainer "
                "tests inline"
            )
            self._deaths = RESTARTS + 1

    @property
    def _usable(self) -> bool:
        """Whether a process is tried at all."""
        return self._deaths <= RESTARTS

    def _send(self, state: list[torch.Tensor], slot: int, step: int) -> None:
        with torch.no_grad():
            for view, tensor in zip(self._views[slot], state, strict=True):
                view.copy_(tensor)
        self._count += 1
        if self._count % self._audit == 0:
            self._expected[step] = self._tested(self._model, step)
        try:
            if self._process is None:
                self._start()
            self._order.append(step)
            self._sent[step] = slot
            self._post(slot, step)
        except BaseException:  # an interrupt: nobody knows what was posted, so all is tested again
            self._stop()
            raise

    def _post(self, slot: int, step: int) -> None:
        if self._pipe is None:
            return  # no process could be started: `_drain` tests what was not posted
        try:
            self._pipe.send_bytes(HEADER.pack(slot, step, 0.0, WELL, 0))
        except OSError:
            self._died()

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return the evaluations that are done, in order; all of them if told to wait."""
        self._receive()
        if wait:
            self._drain()
        found = []
        while self._order:
            step = self._order[0]
            if step in self._done:
                found.append(self._done.pop(step))
            elif step in self._sent:
                break
            self._order.popleft()  # else an interrupt came before it was sent
        return found

    def close(self) -> None:
        """Stop the process."""
        self._stop()

    def _drain(self) -> None:
        while self._sent:
            self._receive(wait=True)

    def _test_rest(self) -> None:
        """Test here what no process is left to test."""
        for step, slot in list(self._sent.items()):
            self._test_again(slot, step)

    def _receive(self, *, wait: bool = False) -> None:
        """Take in what the process has ready; wait for one result if told to."""
        if self._pipe is None:
            self._test_rest()
        try:
            while self._pipe is not None and self._sent:
                data = self._answer(wait=wait)
                if data is None:
                    return
                self._keep(data)
                wait = False
        except KeyboardInterrupt:  # half an answer may be read: what is open is tested again
            self._stop()
            raise

    def _answer(self, *, wait: bool) -> bytes | None:
        """Return the next answer of the process, None if there is none or if it died."""
        assert self._pipe is not None
        try:
            while not self._pipe.poll(PATIENCE if wait else 0):
                if not self._process.is_alive():
                    raise EOFError
                if not wait:
                    return None
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            self._died()
            return None

    def _keep(self, data: bytes) -> None:
        slot, step, seconds, how, length = HEADER.unpack_from(data)
        values_at = HEADER.size + length + 3
        for note in data[HEADER.size : values_at - 3].decode().splitlines():
            self._say(note)
        if how == FAILED:
            self._test_again(slot, step)
            return
        if how == UNSCREENED:
            self._inline.screen_off()
        values = np.frombuffer(data, data[values_at - 3 : values_at].decode(), offset=values_at)
        assert self._prepared is not None
        done = EvalResult(step, self._prepared, values, seconds)
        expected = self._expected.pop(step, done)
        if done.values.tobytes() != expected.values.tobytes():  # bits: NaN is NaN
            self._say(
                f"the worker's results differ from the trainer's at step {step}: the model has "
                "state that is no parameter or buffer, or threads differ. Evaluation goes on "
                "inline; results since the audit before may be off"
            )
            self._deaths = RESTARTS + 1
        self._done[step] = expected
        del self._sent[step]

    def _test_again(self, slot: int, step: int) -> None:
        """Test a snapshot here; an error of the user's own code is kept for who collects."""
        del self._sent[step]
        try:
            self._done[step] = self._tested_from(slot, step)
        except Exception as error:
            self.errors.append(error)

    def _tested(self, model: Any, step: int) -> EvalResult:
        assert self._prepared is not None
        self._inline.submit(model, self._prepared, step)
        (done,) = self._inline.collect(wait=True)
        return done._replace(seconds=0.0)  # the trainer's own time counts as evaluation already

    def _tested_from(self, slot: int, step: int) -> EvalResult:
        """Return the evaluation of a snapshot, tested here on a copy of the model."""
        try:
            model = copy.deepcopy(self._model)
        except Exception:  # it keeps an output, say; then its weights are exchanged for a moment
            model = self._model
        state = state_of(model)
        before = [tensor.data for tensor in state]
        try:
            for tensor, view in zip(state, self._views[slot], strict=True):
                tensor.data = view
            return self._tested(model, step)
        finally:
            for tensor, data in zip(state, before, strict=True):
                tensor.data = data

    def _died(self) -> None:
        """Report that the process died, and have everything it left undone tested."""
        self._process.join(PATIENCE)
        code, waiting = self._process.exitcode, dict(self._sent)
        self._deaths += 1
        self._stop()
        what = f"the evaluation process died (exit code {code}) with {len(waiting)} test(s) to do"
        now = [(tensor.shape, tensor.dtype) for tensor in state_of(self._model)]
        if now != self._shapes:
            self._say(f"{what}, which are lost: the model has other shapes since")
            for step in waiting:
                self._order.remove(step)
            self._sent.clear()
            return
        if not self._usable:
            self._say(f"{what}, again; from here on the trainer tests inline")
            return
        self._say(f"{what}; it is started again and does them")
        self._start()
        for step, slot in waiting.items():
            self._post(slot, step)

    def _start(self) -> None:
        try:
            context = multiprocessing.get_context("fork")
            pipe, theirs = context.Pipe()
            arguments = (theirs, pipe, self._inline, self._model, self._prepared, self._views)
            self._process = context.Process(
                target=serve, args=(*arguments, torch.get_num_threads(), os.getpid()), daemon=True
            )
            with warnings.catch_warnings():  # Python 3.12 warns of forks beside threads: see serve
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except (ValueError, OSError, AssertionError) as error:
            self._say(f"no evaluation process can be started ({error}); the trainer tests inline")
            self._deaths, self._process = RESTARTS + 1, None
            return
        theirs.close()
        self._pipe = pipe

    def _stop(self) -> None:
        pipe, process = self._pipe, self._process
        self._pipe = self._process = None
        if pipe is not None:
            with suppress(OSError):
                pipe.send_bytes(HEADER.pack(END, 0, 0.0, WELL, 0))
            pipe.close()
        if process is not None and process.pid is not None:  # not if it never began
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
