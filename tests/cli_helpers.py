"""Running the command from tests: in this process for speed, or really started."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import perdure
from perdure.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence

R = (
    (0.80, 0.30, 0.08, 0.10, 0.11),
    (0.60, 0.70, 0.72, 0.09, 0.10),
    (0.86, 0.55, 0.65, 0.20, 0.12),
    (0.50, 0.78, 0.58, 0.90, 0.18),
    (0.64, 0.48, 0.75, 0.52, 0.92),
)
B = "0.10,0.11,0.09,0.10,0.10"
KNOWN = {
    "acc": 0.662, "acc.lower": 0.682, "acc.below": 0.626, "acc.all": 0.4892,
    "acc.incremental": 0.6977333333, "bwt": -0.165, "bwt.all": -0.124, "bwt.consecutive": -0.066,
    "forgetting.any": 0.2175, "forgetting.best": 0.2, "forgetting.peak": 0.225,
    "forgetting.learned": 0.165, "fwt.gem": 0.25, "fwt.upper": 0.2, "fwt.next": 0.35,
}  # fmt: skip

# Task a ends at iteration 3, b at 6; tested at every iteration by probes only.
POINTS = """\
step,trained,tested,kind,score
0,,a,initial,0.1
0,,b,initial,0.1
1,a,a,probe,0.5
2,a,a,probe,0.9
3,a,a,probe,0.8
3,b,b,initial,0.2
4,b,a,probe,0.3
4,b,b,probe,0.4
5,b,a,probe,0.6
5,b,b,probe,0.7
6,b,a,probe,0.7
6,b,b,probe,0.6
"""
COSTS = """\
task,flops_train,flops_one_pass,model_bytes,stored_bytes,data_bytes
a,100,10,100,0,100
b,100,10,200,100,100
c,100,10,200,200,100
d,100,10,200,300,100
e,100,10,200,400,100
"""


class Answer(NamedTuple):
    """What a run of the command left behind. `code` is None if an exception came through."""

    code: int | None
    out: str
    err: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(*arguments: str | Path, stdin: bytes = b"", terminal: bool = False) -> Answer:
    """Run the command in this process; warnings are errors here, as everywhere in the tests."""
    out, err = (_Terminal() if terminal else io.StringIO()), io.StringIO()
    code: int | None = 0
    with (
        patch.object(sys, "argv", ["perdure", *map(str, arguments)]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = 1 if isinstance(stop.code, str) else stop.code or 0
        except Exception:
            code = None
            traceback.print_exc(file=err)
    return Answer(code, out.getvalue(), err.getvalue())


def start(
    *arguments: str | Path,
    stdin: bytes = b"",
    command: Sequence[str] | None = None,
    memory: int | None = None,
    cwd: Path | None = None,
    **variables: str,
) -> Answer:
    """Really start the command; `memory` limits its address space, in bytes."""

    def limit() -> None:
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    done = subprocess.run(
        [*(command or installed()), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment() | ({"OPENBLAS_NUM_THREADS": "1"} if memory else {}) | variables,
        preexec_fn=limit,
        check=False,
        timeout=300,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def installed() -> list[str]:
    """Return the console script beside this Python."""
    return [str(Path(sys.executable).with_name("perdure"))]


def environment() -> dict[str, str]:
    """Return variables with which a new process runs the very package under test."""
    source = str(Path(perdure.__file__).parents[1])
    path = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return kept | {"PYTHONPATH": os.pathsep.join(path), "PYTHONWARNINGS": "error"}


def scored(*arguments: str | Path, stdin: bytes = b"", code: int = 0) -> dict[str, Any]:
    """Return what `perdure score … --format json` prints, which must be strict JSON."""
    answer = run("score", *arguments, "--format", "json", stdin=stdin)
    assert answer.code == code, answer.err
    assert answer.err == ""
    return strict(answer.out)


def strict(text: str) -> dict[str, Any]:
    """Return the object in `text`; NaN and Infinity, which are no JSON, fail."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    found = json.loads(text, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


def refused(*arguments: str | Path, stdin: bytes = b"") -> str:
    """Return the one line with which the command refuses bad input, after judging its form."""
    return judged_refusal(run(*arguments, stdin=stdin))


def judged_refusal(answer: Answer) -> str:
    """Return the line of a refusal: exit code 2, one line on stderr, nothing on stdout."""
    assert answer.code == 2, f"exit code {answer.code}: {answer.err or answer.out}"
    assert answer.out == ""
    assert answer.err.startswith("perdure: ")
    assert answer.err.endswith("\n")
    assert len(answer.err.splitlines()) == 1
    assert "Traceback" not in answer.err
    return answer.err.removeprefix("perdure: ").rstrip("\n")


def says(line: str, *words: str) -> None:
    """Fail unless every word stands in `line`."""
    for word in words:
        assert word in line, f"{word!r} is not in {line!r}"


def table(separator: str = ",", rows: Sequence[Sequence[float | str]] = R) -> str:
    """Return rows as lines of text."""
    return "".join(separator.join(str(cell) for cell in row) + "\n" for row in rows)


def write(folder: Path, name: str, content: str | bytes | bytearray) -> Path:
    """Return the path of a new file with this content, as it is."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
