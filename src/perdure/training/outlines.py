"""What a config has to know about a strategy or a model: its hyperparameters and what it requires.

Strategies and models import PyTorch, which takes seconds. Ours are therefore outlined from their
source, which is parsed and never executed; a user's own, `module:name`, has to be imported.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..models import MODELS
from ..models.registry import unknown_model
from ..strategies import STRATEGIES, find_strategy
from .hyperparameters import Hyperparameter, list_hyperparameters, make_hyperparameter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Outline", "outline_model", "outline_strategy"]

PACKAGE = Path(__file__).parents[1]
FLAGS = ("requires_boundaries", "trains_on_all_tasks", "trains_at_task_end")


class Outline(NamedTuple):
    """What is known about a strategy or a model without building it."""

    hyperparameters: Mapping[str, Hyperparameter]
    requires_boundaries: bool = False
    trains_on_all_tasks: bool = False
    trains_at_task_end: bool = False
    code: str = ""  # SHA-256 of the file of the user's own


def outline_strategy(name: str) -> Outline:
    """Return the outline of a strategy by its name, or of your own for "module:Class".

    Example:
        >>> list(outline_strategy("gem").hyperparameters), outline_strategy("gem").code
        (['memory', 'strength', 'implementation'], '')
    """
    if name in STRATEGIES:
        info = STRATEGIES[name]
        return _read_class(PACKAGE / "strategies" / f"{info.module}.py", info.class_name)
    own = find_strategy(name)
    flags = {flag: getattr(own, flag) for flag in FLAGS}
    return Outline(list_hyperparameters(own, skip=("seed",)), **flags, code=_hash_source(own))


def outline_model(name: str) -> Outline:
    """Return the outline of a model by its name, or of your own for "module:factory".

    Example:
        >>> outline_model("resnet18-slim").hyperparameters["filters"].default
        20
    """
    if name in MODELS:
        module, _, function = MODELS[name].partition(":")
        path = PACKAGE / "models" / f"{module.rpartition('.')[2]}.py"
        return Outline(_read_parameters(_read_definitions(path)[function]))
    if ":" not in name:
        raise unknown_model(name)
    from ..models import find_factory

    factory = find_factory(name)
    return Outline(list_hyperparameters(factory), code=_hash_source(factory))


def _read_class(path: Path, name: str) -> Outline:
    """Return the outline of a class in a file of ours; what it lacks comes from its base class."""
    definitions = _read_definitions(path)
    if name not in definitions:
        path = PACKAGE / "strategies" / "_base.py"
        definitions = _read_definitions(path)
    body = definitions[name]
    assert isinstance(body, ast.ClassDef)
    base = body.bases[0] if body.bases else None
    inherited = (
        _read_class(path, base.id)
        if isinstance(base, ast.Name) and base.id != "ABC"
        else Outline({})
    )
    flags = {
        node.target.id: ast.literal_eval(node.value)
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if node.target.id in FLAGS and node.value is not None
    }
    found = inherited._replace(**flags)
    for node in body.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            found = found._replace(hyperparameters=_read_parameters(node))
    return found


@cache
def _read_definitions(path: Path) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """Return the classes and functions of a module by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def _read_parameters(
    function: ast.ClassDef | ast.FunctionDef,
) -> dict[str, Hyperparameter]:
    """Return the keyword-only parameters of a function in a file of ours."""
    assert isinstance(function, ast.FunctionDef)
    found = {}
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        assert argument.annotation is not None
        if argument.arg != "seed":
            value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
            annotation = ast.unparse(argument.annotation)
            found[argument.arg] = make_hyperparameter(annotation, value, {"Literal": Literal})
    return found


def _hash_source(value: Callable[..., object]) -> str:
    """Return the SHA-256 of the file in which the user's own strategy or factory is defined."""
    try:
        return hashlib.sha256(Path(inspect.getfile(value)).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return "unknown"
