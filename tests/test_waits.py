"""What a user waits for: commands that train nothing import no PyTorch, and a first line comes."""

from __future__ import annotations

import ctypes
import json
import sys
from typing import TYPE_CHECKING

import pytest

from perdure import _devices
from perdure.cli import _output, main
from perdure.training.config_checks import FLAGS, outline_model, outline_strategy

from .cli_helpers import run, start, write

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = """
import sys
from perdure.cli import main
for command in {commands!r}:
    sys.argv = ["perdure", *command.split()]
    try:
        main()
    except SystemExit as stop:
        print("LEFT", command, stop.code, "torch" in sys.modules, file=sys.stderr)
"""
STUDY = 'scenarios = ["split-digits"]\nstrategies = ["naive", "ewc"]\nseeds = 1\n[run]\n'


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a finished run and a finished study."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder, "mine.toml", STUDY + "iterations = 1\nevery = 5\n")
    file, store = (
        folder / "mine.toml",
        folder / "runs",
    )  # the run of naive is as `perdure run` has it
    assert run("study", "run", file, "--serial", "--store", store).code == 0
    return folder


LIGHT = [
    "run split-mnist ewc --dry-run",
    "run split-digits naive --iterations 1 --every 5 --seeds 1",
    "study run mine.toml",
    "study run mine.toml --dry-run",
    "study run mine.toml --store none --dry-run",
    "study status mine.toml",
    "study status mine.toml --store none",
    "study report mine.toml",
    "reproduce",
    "explain ewc",
]


def test_commands_that_train_nothing_import_no_pytorch(finished: Path) -> None:
    heavy = "run split-digits naive --iterations 1 --every 5 --seeds 1 --resume"
    script = COMMANDS.format(commands=LIGHT)
    answer = start("-c", script, command=[sys.executable], cwd=finished)
    left = [line for line in answer.err.splitlines() if line.startswith("LEFT")]
    assert left == [f"LEFT {command} 0 False" for command in LIGHT], answer.err
    script = COMMANDS.format(commands=[heavy]).replace("import sys", "import sys, torch", 1)
    answer = start("-c", script, command=[sys.executable], cwd=finished)
    assert answer.err.splitlines()[-1] == f"LEFT {heavy} 0 True"  # the check sees it


def test_outlines_are_what_the_imported_classes_say() -> None:
    pytest.importorskip("torch")
    from perdure.models import MODELS, find_factory
    from perdure.strategies import STRATEGIES, find_strategy
    from perdure.training.hyperparameters import list_hyperparameters

    for name in STRATEGIES:
        strategy, outline = find_strategy(name), outline_strategy(name)
        assert outline.hyperparameters == list_hyperparameters(strategy, skip=("seed",))
        assert [getattr(outline, f) for f in FLAGS] == [getattr(strategy, f) for f in FLAGS]
    for name in MODELS:
        assert outline_model(name).hyperparameters == list_hyperparameters(find_factory(name))


def test_the_version_that_is_read_is_the_one_that_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    assert _devices.torch_version() == torch.__version__
    count = torch.cuda.device_count()
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "torch")
        assert _devices.torch_version() == torch.__version__
        assert _devices.count_gpus() == count
        patched.setattr(_devices, "find_spec", lambda _: None)
        assert (_devices.torch_version(), _devices.count_gpus()) == (None, 0)


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 4), ("", 0), ("0,2", 2), ("1,9,2", 1), ("0,0", None), ("-1", None), ("GPU-1a", None)],
)
def test_the_driver_counts_what_is_visible(
    visible: str | None, count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def __init__(self, _: str) -> None: ...

        def nvmlInit_v2(self) -> int:  # noqa: N802 - as the library names it
            return 0

        def nvmlShutdown(self) -> int:  # noqa: N802
            return 0

        def nvmlDeviceGetCount_v2(self, answer: object) -> int:  # noqa: N802
            answer._obj.value = 4  # type: ignore[attr-defined]
            return 0

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert _devices._ask_driver() == count


# The first line


ORDER = """
import sys
from importlib.abc import MetaPathFinder
class Watch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch._C":
            sys.stderr.write("IMPORT torch\\n")
        return None
sys.meta_path.insert(0, Watch())
"""


def test_a_line_comes_before_pytorch_is_imported(finished: Path) -> None:
    runs = "run split-digits naive --iterations 1 --every 5 --seeds 1 --set lr=0.25 --store fresh"
    estimates = "study run mine.toml --store none --estimate"
    for command in (runs, estimates):
        script = ORDER + COMMANDS.format(commands=[command])
        answer = start("-c", script, command=[sys.executable], cwd=finished)
        lines = answer.err.splitlines()
        assert lines[0].startswith("perdure: "), answer.err
        assert lines[-1].startswith(f"LEFT {command} 0"), answer.err
        assert command == runs or "IMPORT torch" in lines  # a run trains in another process


class FakeTimer:
    """A timer whose time comes when the test says so."""

    made: list[FakeTimer] = []  # noqa: RUF012 - of the class
    daemon = False

    def __init__(self, seconds: float, function: object, arguments: list[str]) -> None:
        self.seconds, self.function, self.arguments = seconds, function, arguments
        self.started = self.cancelled = False
        FakeTimer.made.append(self)

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True


def test_a_silent_command_says_that_it_is_at_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FakeTimer.made.clear()
    monkeypatch.delenv("PERDURE_QUIET")
    monkeypatch.setattr(_output, "Timer", FakeTimer)
    with _output.announce_waiting("score"):
        (timer,) = FakeTimer.made
        assert (timer.started, timer.cancelled, timer.daemon) == (True, False, True)
        assert timer.seconds < 2
        timer.function(*timer.arguments)  # type: ignore[operator]
        assert capsys.readouterr() == (
            "",
            "perdure: score is running; its output will follow\n",
        )
        _output.print_lines("result")
        assert timer.cancelled
    path = write(tmp_path, "m.json", json.dumps([[0.9, None], [0.5, 0.8]]))
    monkeypatch.setattr(sys, "argv", ["perdure", "score", str(path)])
    with pytest.raises(SystemExit):
        main()
    assert FakeTimer.made[-1].cancelled
    assert "is running" not in capsys.readouterr().err


def test_quiet_turns_the_line_off(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTimer.made.clear()
    monkeypatch.setattr(_output, "Timer", FakeTimer)
    monkeypatch.setenv("PERDURE_QUIET", "1")
    with _output.announce_waiting("score"):
        assert not FakeTimer.made[-1].started
