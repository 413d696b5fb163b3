"""A fuzzer of everything that reads files: `python -m tests.fuzz --inputs 10000 --seed 0`.

Each input is a part of the corpus with a file or two spoiled, read by one command in a process
that is started for this. A traceback, a wrong exit code, a second line, a wait without end or a
gigabyte of memory is a finding. Input number k of a seed is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .cli_helpers import environment
from .fuzz_mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from .cli_helpers import Answer
    from .fuzz_corpus import Kind

SECONDS = 120  # of one input, which takes milliseconds: only a fault takes as long
SILENT = 5 * SECONDS  # of a process that not even its alarm wakes
MEMORY = 1 << 30  # bytes, on top of what the process has before


class Finding(NamedTuple):
    """What was wrong with the answer to an input."""

    number: int
    command: str
    how: str
    what: str


class Waited(BaseException):
    """Raised in what takes too long; no `except Exception` holds it up."""


def fuzz(
    inputs: int, seed: int, first: int = 0, told: Callable[[Finding], object] = lambda _: None
) -> tuple[list[Finding], dict[str, float]]:
    """Return what is wrong with the answers to so many inputs, and figures of them all."""
    findings: list[Finding] = []
    figures = {"inputs": 0.0, "refused": 0.0, "slowest": 0.0, "memory": 0.0}
    with tempfile.TemporaryDirectory(prefix="perdure-fuzz-") as folder:
        done = first
        while done < first + inputs:
            for number, said in _worker(Path(folder), done, first + inputs - done, seed):
                done = number + 1
                figures["inputs"] += 1
                figures["refused"] += said["code"] == 2
                figures["slowest"] = max(figures["slowest"], said["seconds"])
                figures["memory"] = max(figures["memory"], said["memory"])
                if said["wrong"]:
                    findings.append(Finding(number, said["command"], said["how"], said["wrong"]))
                    told(findings[-1])
    return findings, figures


def _worker(
    folder: Path, first: int, count: int, seed: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each answer of a new process, and a finding for the input it does not survive."""
    command = [sys.executable, "-m", "tests.fuzz", "--worker", str(folder), "--seed", str(seed)]
    with subprocess.Popen(
        [*command, "--first", str(first), "--inputs", str(count)], stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1], env=environment() | {"OMP_NUM_THREADS": "1"}, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        begun: dict[str, Any] = {"number": first, "command": "the corpus", "how": ""}
        while line := _line(process, process.stdout):
            begun = json.loads(line)
            if "wrong" in begun:
                yield begun["number"], begun
    if process.returncode != 0:
        dead = f"the process ended with {process.returncode}"
        yield begun["number"], {**begun, "wrong": dead, "code": -1, "seconds": 0, "memory": 0}


def _line(process: subprocess.Popen[str], out: IO[str]) -> str:
    """Return the next line of a process, nothing if it ends or has to be ended."""
    alarm = threading.Timer(SILENT, process.kill)
    alarm.start()
    try:
        return out.readline()
    finally:
        alarm.cancel()


def work(folder: Path, first: int, count: int, seed: int) -> None:
    """Answer inputs one after the other, and print each answer as a line of JSON."""
    from .fuzz_corpus import make_corpus

    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing else may write there
    corpus = folder / "corpus"
    if not corpus.exists():
        make_corpus(folder / "new")
        (folder / "new").rename(corpus)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 4 * MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _ring)
    warnings.simplefilter("error")  # one would be a second line on a terminal
    for number in range(first, first + count):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        rng = Random(f"{seed} {number}")
        kind, words, how, stdin = _prepared(corpus, copy, rng)
        begun = {"number": number, "command": " ".join(words), "how": how}
        told.write(json.dumps(begun) + "\n")
        told.write(json.dumps(begun | _answered(kind, words, copy, stdin)) + "\n")
    told.close()


def _prepared(corpus: Path, copy: Path, rng: Random) -> tuple[Kind, list[str], str, bytes]:
    """Return an input: a copy of a part of the corpus, spoiled, and the command that reads it."""
    from .fuzz_corpus import KINDS

    (kind,) = rng.choices([kind for _, kind in KINDS], [weight for weight, _ in KINDS])
    shutil.copytree(corpus / kind.folder, copy)
    files = sorted(path for path in copy.glob(kind.pattern) if path.is_file())
    file = rng.choice(files)
    others = [corpus / kind.folder / path.relative_to(copy) for path in files]
    said = [mutate(file, rng, others)]
    if rng.random() < 0.2 and len(files) > 1:
        said.append(mutate(rng.choice([path for path in files if path != file]), rng, others))
    stdin = file.read_bytes() if file.is_file() and file.stat().st_size < 1 << 24 else b""
    (text,) = rng.choices(
        [text for _, text in kind.commands], [often for often, _ in kind.commands]
    )
    parent = file.parent
    while parent.name in ("per_example", "checkpoint"):
        parent = parent.parent
    words = [word.format(file=file, folder=copy, parent=parent) for word in text.split()]
    return kind, words, "; ".join(said), stdin


def _answered(kind: Kind, words: list[str], copy: Path, stdin: bytes) -> dict[str, Any]:
    from .fuzz_corpus import call

    before = _forget_peak()
    start = time.monotonic()
    signal.alarm(SECONDS)
    answer = None
    try:
        answer = call(words, copy, stdin)
    except Waited:
        wrong = f"more than {SECONDS} seconds"
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    memory = _peak() - before
    if answer is not None:
        wrong = _judged(answer, kind, memory, copy)
    return {
        "wrong": wrong, "code": answer.code if answer else -1, "memory": memory,
        "seconds": time.monotonic() - start,
    }  # fmt: skip


def _judged(answer: Answer, kind: Kind, memory: int, copy: Path) -> str:
    """Return what is wrong with an answer, nothing if nothing is; files lie in `copy`."""
    if "Traceback" in answer.err + answer.out or answer.code is None:
        return answer.err[-3000:]
    if answer.code not in kind.codes:
        return f"exit code {answer.code}: {answer.err[-300:]}"
    lines = answer.err.splitlines()
    if not all(line.startswith("perdure: ") for line in lines):
        return f"a line that is none of ours: {answer.err[:300]!r}"
    refusals = [line for line in lines if not re.match(r"perdure: (note|undefined): ", line)]
    if answer.code == 2 and kind.codes == {0, 2} and len(refusals) != 1:
        return f"{len(refusals)} lines: {answer.err[:300]!r}"
    # Figures call what they show by the name of its file.
    names = "".join(f"|: {re.escape(path.stem)}: " for path in copy.glob("*"))
    named = rf"{copy}|standard input|study small|--\w+{names}"
    if answer.code == 2 and not re.search(named, answer.err):
        return f"no file is named: {answer.err[:300]!r}"
    return f"{memory >> 20} MiB of memory" if memory > MEMORY else ""


def _ring(number: int, frame: FrameType | None) -> None:
    raise Waited


def _forget_peak() -> int:
    """Have the system measure the peak of memory from now on; return what is used now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def _show(each: Finding) -> None:
    print(f"--- input {each.number}: {each.command}\n{each.how}\n{each.what}", flush=True)


def main() -> int:
    """Fuzz, print what was found, and return 1 if it was anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(given.worker, given.first, given.inputs, given.seed)
        return 0
    findings, figures = fuzz(given.inputs, given.seed, given.first, told=_show)
    most = f"slowest {figures['slowest']:.1f} s, most memory {figures['memory'] / 2**20:.0f} MiB"
    counts = f"{figures['inputs']:.0f} inputs, {figures['refused']:.0f} refused"
    print(f"{counts}, {len(findings)} findings; {most}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
