"""The fuzzer finds nothing, and would find what there might be."""

from __future__ import annotations

import gc
import signal
import time
from pathlib import Path
from random import Random

import pytest

from . import fuzz as fuzzer
from . import fuzz_corpus
from .cli_helpers import Answer
from .data_helpers import tree
from .fuzz import MEMORY, fuzz
from .fuzz_mutations import BYTES, SPECIAL, mutate

KIND = fuzz_corpus.Kind("files", "*", fuzz_corpus.MATRIX)


def found_nothing(inputs: int, seed: int) -> None:
    findings, figures = fuzz(inputs, seed)
    assert findings == []
    assert figures["inputs"] == inputs
    assert inputs / 3 < figures["refused"] < inputs  # spoiled, but not beyond recognition


def test_no_traceback_no_wait_and_no_gigabyte() -> None:
    found_nothing(200, seed=0)


@pytest.mark.slow
def test_ten_thousand_inputs() -> None:
    found_nothing(10_000, seed=1)


@pytest.mark.parametrize(
    ("answer", "memory", "words"),
    [
        (Answer(0, "fine", ""), 0, ""),
        (Answer(2, "", "perdure: /copy/m.csv: empty\n"), 0, ""),
        (Answer(2, "", "perdure: note: b left out\nperdure: /copy/a: empty\n"), 0, ""),
        (Answer(2, "", "perdure: it is empty\n"), 0, "no file is named"),
        (Answer(None, "", "Traceback (most recent call last):\n"), 0, "Traceback"),
        (Answer(1, "", "perdure: not enough memory\n"), 0, "exit code 1"),
        (Answer(2, "", "perdure: a\nperdure: b\n"), 0, "2 lines"),
        (Answer(0, "", "x.py:1: RuntimeWarning\n"), 0, "none of ours"),
        (Answer(0, "", ""), MEMORY + 1, "MiB of memory"),
    ],
)
def test_what_is_wrong_with_an_answer_is_seen(answer: Answer, memory: int, words: str) -> None:
    said = fuzzer._judged(answer, KIND, memory, Path("/copy"))
    assert words in said
    assert bool(said) == bool(words)


def test_what_waits_or_takes_memory_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wait(*_: object) -> Answer:
        time.sleep(300)
        return Answer(0, "", "")

    def fill(*_: object) -> Answer:
        bytearray(512 << 20)[:: 1 << 12] = b"x" * (1 << 17)
        return Answer(0, "", "")

    before = signal.signal(signal.SIGALRM, fuzzer._ring)
    monkeypatch.setattr(fuzzer, "SECONDS", 1)
    monkeypatch.setattr(fuzz_corpus, "call", wait)
    assert fuzzer._answered(KIND, [], tmp_path, b"")["wrong"] == "more than 1 seconds"
    monkeypatch.setattr(fuzzer, "SECONDS", 100)
    monkeypatch.setattr(fuzzer, "MEMORY", 32 << 20)
    monkeypatch.setattr(fuzz_corpus, "call", fill)
    gc.collect()  # what is freed while it is measured would hide what is taken
    assert "MiB of memory" in fuzzer._answered(KIND, [], tmp_path, b"")["wrong"]
    signal.signal(signal.SIGALRM, before)


def test_every_way_to_spoil_a_file_is_taken_and_comes_again(tmp_path: Path) -> None:
    said = []
    for k in range(400):
        both = []
        for again in ("a", "b"):
            folder = tmp_path / f"{k}{again}"
            folder.mkdir()
            (folder / "m.csv").write_text(".9,.1\n.5,.8\n")
            (folder / "other.csv").write_text("a,b\n1,2\n")
            how = mutate(folder / "m.csv", Random(k), [folder / "other.csv"])
            small = (folder / "m.csv").is_file() and (folder / "m.csv").stat().st_size < 1 << 20
            both.append((how, tree(folder) if small else {}))
        assert both[0] == both[1]
        said.append(both[0][0])
    assert {each.__name__ for each in (*BYTES, *SPECIAL)} <= set(
        " ".join(said).replace(",", "").replace(";", "").split()
    )
