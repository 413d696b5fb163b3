"""Imports that may fail: optional packages, names imported on use, and the user's own modules.

`import perdure` imports this module, so it has to be fast: what takes long is imported on use.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ._suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

__all__ = ["import_on_use", "import_user_attribute", "install_hint", "is_installed"]


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it.

    Example:
        >>> is_installed("numpy"), is_installed("no_such_module")
        (True, False)
    """
    try:
        return find_spec(module) is not None
    except ValueError:  # `sys.modules` says that there is none
        return False


def import_on_use(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose names are imported when they are first used.

    Args:
        package: its `__name__`.
        modules: the module that defines each name, relative to the package.

    Example:
        >>> import_on_use("perdure", {"count_gpus": "_devices"})("count_gpus").__name__
        'count_gpus'
    """

    def get_attribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f".{modules[name]}", package), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            hint = install_hint("train")
            raise ModuleNotFoundError(
                f"{package}.{name} needs PyTorch: {hint}", name="torch"
            ) from None

    return get_attribute


def install_hint(extra: str) -> str:
    """Return the command that installs the packages of an extra into this environment.

    Nobody can install a checkout's extras by the name of a release: there, the command names the
    folder.
    """
    folder, editable = _find_source()
    if folder is None:
        return f"{_pip()} install 'perdure[{extra}]'"
    here = "." if folder == Path.cwd() else str(folder)
    return f"{_pip()} install {'-e ' if editable else ''}{shlex.quote(f'{here}[{extra}]')}"


def _pip() -> str:
    """Return how to call this environment's pip: by its name only if that finds this one."""
    active = os.environ.get("VIRTUAL_ENV")
    in_environment = sys.prefix != sys.base_prefix
    if not in_environment or (active is not None and Path(active) == Path(sys.prefix)):
        return "pip"
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"{shlex.quote(str(python))} -m pip"


def _find_source() -> tuple[Path | None, bool]:
    """Return the folder that perdure was installed from, None for a release; and if editably."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("perdure").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(origin.get("url", ""))
    if url.scheme == "file" and (folder := Path(unquote(url.path))).is_dir():
        return folder, bool(origin.get("dir_info", {}).get("editable"))
    checkout = Path(__file__).parents[2]
    return (checkout, True) if (checkout / "pyproject.toml").is_file() else (None, False)


def import_user_attribute(name: str, kind: str) -> object:
    """Return what `module:attribute` names, or raise an error that begins with `kind` and `name`.

    The current directory is searched last, so a file such as `numpy.py` in it never shadows an
    installed package.

    Args:
        name: "module:attribute"; the attribute may have dots.
        kind: what is imported, such as "model" or "strategy".

    Example:
        >>> import_user_attribute("math:pi", "model")
        3.141592653589793
    """
    from .record import InputError

    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise InputError(f"{kind} is {name!r:.60}, expected module:name")
    module = _import_module(module_name, f"{kind} {name!r}")
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            # An installed module of the same name may have been found first: show the file.
            file = getattr(module, "__file__", None) or "built in"
            hint = suggest_names(part, (known for known in dir(value) if known[0] != "_"))
            lacking = f"{kind} {name!r}: {module_name} ({file}) has no {attribute!r}"
            raise InputError(f"{lacking}; {hint}".rstrip("; "))
        value = getattr(value, part)
    return value


def _import_module(module: str, subject: str) -> ModuleType:
    from .record import InputError

    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(
                f"{subject}: no module named {error.name!r} in the current directory or installed, "
                "expected module:name; run the command from the folder that contains it"
            ) from None
        raise InputError(
            f"{subject}: {module} requires {error.name!r}, which is not installed"
        ) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{subject}: importing {module} failed: {reason}") from error
