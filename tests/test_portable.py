"""Systems that lack parts of Linux: what does not work there degrades, and says so."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import perdure
from perdure import InputError, _devices, _extras
from perdure._devices import resolve_device
from perdure.evaluation.engine import worker

from .cli_helpers import start, table, write

SOURCE = Path(perdure.__file__).parent

# What Windows lacks: modules, functions of `os` and `signal`, folders as descriptors.
WITHOUT = """
import os, signal, sys
import torch, multiprocessing.connection, asyncio  # what other packages need is theirs
for module in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[module] = None
for name in ("fork", "pread", "pwrite", "register_at_fork", "sched_getaffinity", "O_NOFOLLOW",
             "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "getppid", "killpg"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("pthread_sigmask", "SIGKILL", "SIGHUP", "SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
COMMANDS = """
from perdure.cli import main
import perdure.execution.process_pool as pool
pool.CAN_PASS_PIPES = False
for command in {commands!r}:
    sys.argv = ["perdure", *command.split()]
    try:
        main()
    except SystemExit as stop:
        print("LEFT", stop.code, file=sys.stderr)
"""


def test_scoring_and_training_work_without_what_windows_lacks(tmp_path: Path) -> None:
    write(tmp_path, "m.csv", table())
    commands = [
        "score m.csv",
        "run split-digits naive --iterations 2 --seeds 2 --every 2",
        "run split-digits naive --iterations 2 --seeds 2 --every 2",
        "score runs",
        "compare a=runs b=runs --format json",
    ]
    script = WITHOUT + COMMANDS.format(commands=commands)
    answer = start("-c", script, command=[sys.executable], cwd=tmp_path)
    codes = [line for line in answer.err.splitlines() if line.startswith("LEFT")]
    assert codes[:4] == ["LEFT 0"] * 4, answer.err
    assert "cannot start runs as processes; they run one after the other" in answer.err
    assert "finished before" in answer.err
    assert "Traceback" not in answer.err
    assert "\r" not in (tmp_path / "m.csv").read_text()


def test_on_macos_workers_evaluate_inline_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "sys", SimpleNamespace(platform="darwin"))
    x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    model = torch.nn.Linear(4, 2)
    executor = perdure.Worker()
    with perdure.Evaluator({"a": (x, y)}, executor=executor, count_flops=False) as evaluator:
        evaluator.begin("a", model)
        with pytest.warns(perdure.EvaluationWarning, match="on macOS.*forked.*evaluated inline"):
            evaluator.step(model)
        evaluator.step(model)
        evaluator.end()
    assert evaluator.live.current is not None


def test_files_are_opened_with_their_encoding() -> None:
    """A text file without an encoding is read differently on Windows."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            opens = isinstance(node.func, ast.Name) and name == "open"
            words = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            if (opens and not {"rb", "wb", "ab"} & {*words}) or name in ("read_text", "write_text"):
                keywords = {keyword.arg for keyword in node.keywords}
                metadata = "direct_url.json" in words  # whose method takes no encoding
                assert "encoding" in keywords or "utf-8" in words or metadata, (path, node.lineno)


def test_modules_of_one_system_are_imported_where_they_are_used() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"^(import|from) (fcntl|resource|termios|pwd|grp|msvcrt)\b", text, re.M
        ), path


# Apple's GPUs, of which none is here: what can be checked without one


def test_mps_is_accepted_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="device is 'mps', and this machine"):
        resolve_device("mps")
    monkeypatch.setattr(_devices.sys, "platform", "darwin")  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert resolve_device("mps") == "mps"
    assert resolve_device("auto") in ("cpu", "cuda")  # never chosen: it has no float64
    with pytest.raises(InputError, match="device is 'mps:1'"):
        resolve_device("mps:1")


def test_nothing_asks_a_device_for_float64() -> None:
    """MPS has no float64: tensors are widened by `widest_float`, or on the CPU."""
    for package in ("strategies", "evaluation", "training", "models"):
        for path in (SOURCE / package).rglob("*.py"):
            code = re.sub(r">>>.*|#.*", "", path.read_text(encoding="utf-8"))
            assert ".double()" not in code, path


# Hints about missing packages


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let perdure be installed from where the test says."""
    told: dict[str, Any] = {"text": None}
    found = SimpleNamespace(read_text=lambda _: told["text"])
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    return told


def test_a_hint_installs_from_where_perdure_was_installed(
    origin: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_extras, "__file__", str(tmp_path / "site" / "perdure" / "_extras.py"))
    assert _extras.install_hint("report") == "pip install 'perdure[report]'"
    origin["text"] = f'{{"url": "{tmp_path.as_uri()}", "dir_info": {{"editable": true}}}}'
    assert _extras.install_hint("train") == f"pip install -e '{tmp_path}[train]'"
    origin["text"] = f'{{"url": "{tmp_path.as_uri()}", "dir_info": {{}}}}'
    monkeypatch.chdir(tmp_path)
    assert _extras.install_hint("train") == "pip install '.[train]'"
    monkeypatch.delenv("VIRTUAL_ENV")
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert _extras.install_hint("train") == ".venv/bin/python -m pip install '.[train]'"
