"""Finding a user's own module from where the command was started."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .record import InputError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["describe_module", "import_user_module"]


def import_user_module(module: str, what: str) -> ModuleType:
    """Return an imported module, looked for in the current directory after everything installed.

    Whatever else lies in that directory, a stray numpy.py say, is never taken for what we need.

    Args:
        module: its name.
        what: what it is imported for, as errors begin: "model 'mine:network'".
    """
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(
                f"{what}: there is no module {error.name!r} here or installed, expected"
                " module:name; run from the folder that holds it"
            ) from None
        raise InputError(
            f"{what}: {module} needs {error.name!r}, which is not installed"
        ) from error
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{what}: importing {module} fails: {why}") from error


def describe_module(module: ModuleType) -> str:
    """Return a module's name and its file: an installed one of that name may have come first."""
    return f"{module.__name__} ({getattr(module, '__file__', None) or 'built in'})"
