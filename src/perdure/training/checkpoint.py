"""A learner's whole state in one safetensors file: nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..record import InputError, open_regular, replace_file
from ..record.io.append import UNFINISHED_PATTERN
from .loop import Position

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from ..strategies import Strategy
    from .early_stopping import EarlyStopping

__all__ = ["has_checkpoint", "load_checkpoint", "load_record_state", "save_checkpoint"]

FILE = "state.safetensors"
PARTS = ("kind", "position", "model", "optimizer", "own", "stopping", "random", "record")
ANEW = "start the run anew (--restart)"
ELSEWHERE = ("model", "optimizer", "examples")  # attributes that are not simply put back


def save_checkpoint(
    folder: str | os.PathLike[str],
    strategy: Strategy,
    position: Position,
    stopping: EarlyStopping | None = None,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write everything that going on from `position` needs; an older checkpoint is replaced whole.

    Args:
        folder: where it goes.
        strategy: the learner.
        position: where training is.
        stopping: what early stopping remembers.
        record: the evaluator's `state_dict`.
    """
    tensors: dict[str, Tensor] = {}
    mine = {k: v for k, v in vars(strategy).items() if k not in ELSEWHERE and k[0] != "_"}
    state = {
        "kind": _kind(strategy),
        "position": position._asdict(),
        "model": dict(strategy.model.state_dict()),
        "optimizer": strategy.optimizer.state_dict(),
        "own": mine,
        "stopping": None if stopping is None else vars(stopping),
        "random": _random_states(strategy.examples.device),
        "record": None if record is None else dict(record),
    }
    text = json.dumps(_encoded(state, tensors))
    metadata = {"state": text, "sha256": _digest(text, tensors)}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob(UNFINISHED_PATTERN):  # of a process that was killed while it saved
        stale.unlink(missing_ok=True)
    replace_file(target / FILE, save(tensors, metadata))


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Return whether there is one in `folder`."""
    return (Path(folder) / FILE).exists()


def load_record_state(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the evaluator's state of a checkpoint, None where it was saved without."""
    found: dict[str, Any] | None = _read(Path(folder) / FILE)["record"]
    return found


def load_checkpoint(
    folder: str | os.PathLike[str], strategy: Strategy, stopping: EarlyStopping | None = None
) -> Position:
    """Return where to go on, with the state of that position loaded into `strategy`.

    The strategy, its model and its optimizer are made as they were at the start of the run.
    """
    path = Path(folder) / FILE
    state, expected = _read(path), _kind(strategy)
    if state["kind"] != expected:
        raise InputError(f"{path}: a checkpoint of {state['kind']}, expected {expected}; {ANEW}")
    seed = state["own"].get("seed") if isinstance(state["own"], dict) else None
    if seed != strategy.seed:
        raise InputError(f"{path}: a checkpoint of seed {seed}, expected {strategy.seed}; {ANEW}")
    try:
        strategy.model.load_state_dict(state["model"])
        strategy.optimizer.load_state_dict(state["optimizer"])
        device = strategy.examples.device
        for name, value in state["own"].items():
            now = getattr(strategy, name, None)
            setattr(strategy, name, _on(device, value, now, strategy.model))
        if stopping is not None and state["stopping"] is not None:
            vars(stopping).update(state["stopping"])
        torch.set_rng_state(state["random"]["cpu"])
        if "cuda" in state["random"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random"]["cuda"], device)
        return Position(**state["position"])
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        said = f"a checkpoint of another run ({_last_line(error)})"
        raise InputError(f"{path}: {said}; {ANEW}") from None


def _read(path: Path) -> dict[str, Any]:
    """Return what a file holds, or raise unless it is a checkpoint with all its parts."""
    try:
        open_regular(path).close()  # it would wait for a pipe
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata["state"]
        if metadata["sha256"] != _digest(text, tensors):
            raise ValueError("its bytes are not those that were saved")
        state = _decoded(json.loads(text), tensors)
        return {part: state[part] for part in PARTS}
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint") from None
    except InputError as error:
        raise InputError(f"{error}; {ANEW}") from None
    except RecursionError:
        raise InputError(f"{path}: a checkpoint nested too deeply; {ANEW}") from None
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, OSError) as error:
        said = f"not a checkpoint that can be read ({_last_line(error)})"
        raise InputError(f"{path}: {said}; {ANEW}") from None


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of everything in a checkpoint."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        plain: Any = tensor.contiguous().flatten().view(torch.uint8).numpy()
        digest.update(plain)
    return digest.hexdigest()


def _kind(strategy: Strategy) -> str:
    return f"{type(strategy).__name__} with {type(strategy.optimizer).__name__}"


def _last_line(error: Exception) -> str:
    """Return the line of a message that says most, after its kind."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].strip()}"


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _on(device: torch.device, value: Any, now: Any, model: nn.Module) -> Any:
    """Return a loaded attribute on the learner's device, in the tensor or module it was in.

    A module that was made after the start, a teacher say, is a copy of the learner's own.
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
        held = now if isinstance(now, dict) else {}
        return {key: _on(device, each, held.get(key), model) for key, each in value.items()}
    if isinstance(value, list | tuple):
        same = isinstance(now, list | tuple) and len(now) == len(value)
        places = list(now) if same else [None] * len(value)
        parts = [_on(device, a, b, model) for a, b in zip(value, places, strict=True)]
        return parts if isinstance(value, list) else tuple(parts)
    return value


class _Module(NamedTuple):
    """The state of a network that is not the learner's own."""

    state: dict[str, Tensor]


def _encoded(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return `value` as JSON can hold it; its tensors and arrays go into `tensors`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, nn.Parameter):
        raise TypeError("a strategy keeps a parameter of its model, expected a copy: p.detach()")
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor | np.ndarray):
        name = str(len(tensors))
        kept = value.detach() if isinstance(value, Tensor) else torch.tensor(value)
        tensors[name] = kept.cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor" if isinstance(value, Tensor) else "array": name}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    if isinstance(value, nn.Module):
        return {"module": _encoded(dict(value.state_dict()), tensors)}
    if isinstance(value, dict):
        return {"dict": [[_encoded(k, tensors), _encoded(v, tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encoded(each, tensors) for each in value]}
    raise TypeError(
        f"a strategy keeps a {type(value).__name__}, expected tensors, arrays, generators, "
        "numbers, text, or lists and dicts of them; name it with a leading _ if it follows from "
        "the rest"
    )


def _decoded(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return what `_encoded` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        return tensors[held]
    if kind == "array":
        return tensors[held].numpy()
    if kind == "module":
        return _Module(_decoded(held, tensors))
    if kind == "generator":
        generator = np.random.default_rng()
        generator.bit_generator.state = held
        return generator
    if kind == "dict":
        return {_decoded(k, tensors): _decoded(v, tensors) for k, v in held}
    if kind == "list":
        return [_decoded(each, tensors) for each in held]
    if kind == "tuple":
        return tuple(_decoded(each, tensors) for each in held)
    raise ValueError(f"{kind!r} is not known")
