"""Optional packages: whether they are installed, and the command that installs them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["install_hint", "is_installed"]


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
    try:
        origin = json.loads(distribution("perdure").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(origin.get("url", ""))
    if url.scheme == "file" and (folder := Path(unquote(url.path))).is_dir():
        return folder, bool(origin.get("dir_info", {}).get("editable"))
    checkout = Path(__file__).parents[2]
    return (checkout, True) if (checkout / "pyproject.toml").is_file() else (None, False)
