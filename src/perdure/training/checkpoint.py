"""The complete state of a learner in one safetensors file; nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from copy import deepcopy
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..record import InputError, RecordError, open_regular, replace_file
from ..record.io.folder import UNFINISHED_PATTERN
from .config import CHECKPOINT_SECONDS
from .loop import Position

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from ..evaluation import Evaluator
    from ..strategies import Strategy
    from .monitoring import EarlyStopping

__all__ = ["Checkpointer", "load_checkpoint", "load_resumption", "save_checkpoint"]

FILE = "state.safetensors"
PARTS = ("kind", "position", "model", "optimizer", "own", "stopping", "random", "record")
RESTART = "use `restart=True` to start over"
OTHER_ATTRIBUTES = ("model", "optimizer", "examples")  # saved as parts, or not at all

State = dict[str, Any]  # nested: numbers, text, tensors, arrays, generators, lists and dicts
TASK_END_SECONDS = 5.0  # after a checkpoint, none is saved at the end of a task


def save_checkpoint(
    folder: str | os.PathLike[str],
    strategy: Strategy,
    position: Position,
    stopping: EarlyStopping | None = None,
    record: Mapping[str, object] | None = None,
) -> None:
    """Write everything that is needed to resume at `position`, replacing an older checkpoint.

    Args:
        folder: For the checkpoint.
        strategy: The learner.
        position: Where training is.
        stopping: The state of early stopping.
        record: The evaluator's `state_dict`.
    """
    tensors = _TensorTable()
    own = {
        name: value
        for name, value in vars(strategy).items()
        if name not in OTHER_ATTRIBUTES and not name.startswith("_")
    }
    state = {
        "kind": _kind(strategy),
        "position": position._asdict(),
        "model": dict(strategy.model.state_dict()),
        "optimizer": strategy.optimizer.state_dict(),
        "own": own,
        "stopping": None if stopping is None else vars(stopping),
        "random": _random_states(strategy.examples.device),
        "record": None if record is None else dict(record),
    }
    text = json.dumps(_encode(state, tensors))
    metadata = {"state": text, "sha256": _digest(text, tensors)}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob(UNFINISHED_PATTERN):  # of a process that was killed while saving
        stale.unlink(missing_ok=True)
    replace_file(target / FILE, save(tensors, metadata))


class Resumption(NamedTuple):
    """Where a run resumes: its position, and the evaluator's state if that was saved."""

    position: Position
    record: State | None


def load_checkpoint(
    folder: str | os.PathLike[str], strategy: Strategy, stopping: EarlyStopping | None = None
) -> Position:
    """Return the position of a checkpoint after loading its state into `strategy`.

    The strategy, its model and its optimizer must be as they were at the start of the run.
    """
    return load_resumption(folder, strategy, stopping).position


def load_resumption(
    folder: str | os.PathLike[str], strategy: Strategy, stopping: EarlyStopping | None = None
) -> Resumption:
    """Return all that a run resumes from; the checkpoint is read and verified once."""
    path = Path(folder) / FILE
    state, expected = _read(path), _kind(strategy)
    if state["kind"] != expected:
        raise InputError(f"{path}: a checkpoint of {state['kind']}, expected {expected}; {RESTART}")
    seed = state["own"].get("seed") if isinstance(state["own"], dict) else None
    if seed != strategy.seed:
        raise InputError(
            f"{path}: a checkpoint of seed {seed}, expected {strategy.seed}; {RESTART}"
        )
    try:
        strategy.model.load_state_dict(state["model"])
        strategy.optimizer.load_state_dict(state["optimizer"])
        device = strategy.examples.device
        for name, value in state["own"].items():
            now = getattr(strategy, name, None)
            setattr(strategy, name, _restore(value, now, device, strategy.model))
        if stopping is not None and state["stopping"] is not None:
            vars(stopping).update(state["stopping"])
        torch.set_rng_state(state["random"]["cpu"])
        if "cuda" in state["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random"]["cuda"], device)
        if "mps" in state["random"] and torch.backends.mps.is_available():
            torch.mps.set_rng_state(state["random"]["mps"])
        return Resumption(Position(**state["position"]), state["record"])
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        reason = f"a checkpoint of another run ({_last_line(error)})"
        raise InputError(f"{path}: {reason}; {RESTART}") from None


def _read(path: Path) -> State:
    """Return the state in a file, or raise unless it is a checkpoint with all its parts."""
    try:
        open_regular(path).close()  # safetensors would wait for a pipe
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata["state"]
        if metadata["sha256"] != _digest(text, tensors):
            raise ValueError("its content is not what was saved")
        state: Any = _decode(json.loads(text), tensors)
        return {part: state[part] for part in PARTS}
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint") from None
    except InputError as error:
        raise InputError(f"{error}; {RESTART}") from None
    except RecursionError:
        raise InputError(f"{path}: a checkpoint nested too deeply; {RESTART}") from None
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, OSError) as error:
        reason = f"not a checkpoint that can be read ({_last_line(error)})"
        raise InputError(f"{path}: {reason}; {RESTART}") from None


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of the content of a checkpoint."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        buffer: Any = tensor.contiguous().flatten().view(torch.uint8).numpy()
        digest.update(buffer)
    return digest.hexdigest()


def _kind(strategy: Strategy) -> str:
    return f"{type(strategy).__name__} with {type(strategy.optimizer).__name__}"


def _last_line(error: Exception) -> str:
    """Return the type of an error and the last line of its message."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].strip()}"


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def _restore(value: object, now: object, device: torch.device, model: nn.Module) -> object:
    """Return a loaded attribute on `device`, in the tensor or module that holds it now.

    A module that did not exist at the start, such as a teacher, is a copy of the model.
    """
    if isinstance(value, _Module):
        module = now if isinstance(now, nn.Module) else deepcopy(model)
        module.load_state_dict(value.state)
        return module
    if isinstance(value, Tensor):
        if isinstance(now, Tensor) and (now.shape, now.dtype) == (value.shape, value.dtype):
            return now.copy_(value)  # in place: others may hold it
        return value.to(device)
    if isinstance(value, dict):
        fields = now if isinstance(now, dict) else {}
        return {key: _restore(item, fields.get(key), device, model) for key, item in value.items()}
    if isinstance(value, list | tuple):
        held = now if isinstance(now, list | tuple) and len(now) == len(value) else repeat(None)
        items = [_restore(a, b, device, model) for a, b in zip(value, held, strict=False)]
        return items if isinstance(value, list) else tuple(items)
    return value


class _Module(NamedTuple):
    """The state of a network other than the strategy's model."""

    state: Any  # of its tensors by name


class _TensorTable(dict[str, Tensor]):
    """Tensors by name; one with the same content as another is stored once.

    A frozen backbone is part of the model, of a teacher and of a copy of the initial weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[tuple[str, torch.dtype, torch.Size], str] = {}

    def add(self, tensor: Tensor) -> str:
        """Return the name under which a tensor is stored."""
        copy = tensor.cpu().clone(memory_format=torch.contiguous_format)
        content: Any = copy.flatten().view(torch.uint8).numpy()
        key = (hashlib.sha256(content).hexdigest(), copy.dtype, copy.shape)
        name = self._names.setdefault(key, str(len(self)))
        self.setdefault(name, copy)
        return name


def _encode(value: object, tensors: _TensorTable) -> object:
    """Return `value` as JSON data; its tensors and arrays are added to `tensors`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, nn.Parameter):
        raise TypeError(
            "a strategy has a parameter of its model as an attribute, expected a copy: p.detach()"
        )
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor | np.ndarray):
        tensor = value.detach() if isinstance(value, Tensor) else torch.tensor(value)
        return {"tensor" if isinstance(value, Tensor) else "array": tensors.add(tensor)}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    if isinstance(value, nn.Module):
        return {"module": _encode(dict(value.state_dict()), tensors)}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, tensors), _encode(v, tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(item, tensors) for item in value]}
    raise TypeError(
        f"a strategy has a {type(value).__name__} as an attribute, expected tensors, arrays, "
        "generators, numbers, text, or lists and dicts of them; start its name with _ if it can be "
        "derived from the others"
    )


def _decode(value: object, tensors: dict[str, Tensor]) -> object:
    """Return the value that `_encode` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content].clone()  # several may have been stored as one
    if kind == "array":
        return tensors[content].clone().numpy()
    if kind == "module":
        return _Module(_decode(content, tensors))
    if kind == "generator":
        generator = np.random.default_rng()
        generator.bit_generator.state = content
        return generator
    if kind == "dict":
        return {_decode(k, tensors): _decode(v, tensors) for k, v in content}
    if kind == "list":
        return [_decode(item, tensors) for item in content]
    if kind == "tuple":
        return tuple(_decode(item, tensors) for item in content)
    raise ValueError(f"{kind!r} is not known")


class Checkpointer:
    """Saves a run, with the record of its evaluator, every few seconds and at the ends of tasks.

    If `every` is 0 seconds, it saves after every iteration, or after those that are taken together
    on a GPU.
    """

    def __init__(
        self,
        folder: Path,
        strategy: Strategy,
        evaluator: Evaluator,
        stopping: EarlyStopping,
        *,
        every: float = CHECKPOINT_SECONDS,
        on_checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self._folder, self._strategy, self._evaluator = folder, strategy, evaluator
        self._stopping, self._every, self._on_checkpoint = stopping, every, on_checkpoint
        self._last = time.monotonic()
        self._has_failed = False

    def is_due(self, *, task_ended: bool = False) -> bool:
        """Return whether it is time to save."""
        seconds = min(TASK_END_SECONDS, self._every) if task_ended else self._every
        return time.monotonic() - self._last >= seconds

    def save(self, position: Position) -> None:
        """Save the run at `position`; a failure is reported once and does not stop the run."""
        with self._evaluator.costs.exclude_from_costs():
            try:
                state = self._evaluator.state_dict()
                save_checkpoint(self._folder, self._strategy, position, self._stopping, state)
                saved = True
            except (OSError, RecordError, SafetensorError, TypeError) as error:
                saved = False
                if not self._has_failed:
                    self._evaluator.warn(
                        f"the checkpoint after step {position.step} could not be saved ({error}); "
                        "if this run is stopped, it resumes from an earlier one or starts over"
                    )
                self._has_failed = True
        self._last = time.monotonic()
        if saved and self._on_checkpoint is not None:
            self._on_checkpoint()

    def remove(self) -> None:
        """Remove the checkpoint of a finished run."""
        shutil.rmtree(self._folder, ignore_errors=True)
