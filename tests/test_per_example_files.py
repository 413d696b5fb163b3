"""per_example/: bytes written by hand come back exactly; damaged or hostile files do not."""

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import PerExample
from perdure.record import InputError, read_input, read_per_example

from .stream_references import law


def packed(bits: list[int]) -> bytes:
    """Return eight bits to a byte, the first the highest, the last byte filled with zeros."""
    padded = bits + [0] * (-len(bits) % 8)
    return bytes(
        sum(bit << (7 - k) for k, bit in enumerate(padded[start : start + 8]))
        for start in range(0, len(padded), 8)
    )


def record(step: int, bits: list[int]) -> bytes:
    return struct.pack("<q", step) + packed(bits)


def write(folder: Path, position: int, evaluations: dict[int, list[int]], n: int) -> None:
    folder.mkdir(exist_ok=True)
    data = b"".join(record(step, bits) for step, bits in evaluations.items())
    (folder / f"{position}.bin").write_bytes(data)
    np.save(folder / f"{position}.npy", np.arange(100, 100 + n))


RIGHT = {3: [1, 0, 1, 1, 0, 0, 0, 1, 1, 0], 258: [0] * 10, 70000: [1] * 10}


def test_bytes_written_by_hand(tmp_path: Path) -> None:
    assert record(258, [1, 0, 0, 0, 0, 0, 0, 0, 1]) == b"\x02\x01\0\0\0\0\0\0\x80\x80"
    write(tmp_path / "per_example", 0, RIGHT, 10)
    found, warnings = read_per_example(tmp_path / "per_example", ["a", "b"])
    assert warnings == []
    assert list(found) == ["a"]
    hits = found["a"]
    assert hits.shape == (3, 10)
    assert hits.steps.tolist() == [3, 258, 70000]
    assert [hits[k].astype(int).tolist() for k in range(3)] == list(RIGHT.values())
    assert hits.accuracy().tolist() == [0.5, 0.0, 1.0]
    assert hits.after(3).steps.tolist() == [258, 70000]
    assert hits.after(3)[0].tolist() == [False] * 10


tables = st.integers(1, 20).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=6)
)


@law
@given(tables)
def test_pack_is_the_files_order(rows: list[list[int]]) -> None:
    hits = PerExample.pack(list(range(len(rows))), rows)
    assert [hits.packed[k].tobytes() for k in range(len(rows))] == [packed(row) for row in rows]
    assert hits[:].astype(int).tolist() == rows
    assert hits.accuracy() == pytest.approx([sum(row) / len(row) for row in rows])
    assert len(hits) == len(rows)


@law
@given(st.integers(1, 20), st.binary(min_size=3, max_size=3))
def test_padding_never_counts(n: int, data: bytes) -> None:
    """Bits beyond the last example are not hits; refusing them would do as well."""
    packed = np.frombuffer(data[: -(-n // 8)], np.uint8)[None]
    try:
        hits = PerExample(np.array([1]), packed, n)
    except ValueError:
        return
    assert hits.accuracy()[0] == pytest.approx(hits[0].mean())


def test_hits_judge_their_arrays() -> None:
    one = np.zeros((1, 1), np.uint8)
    with pytest.raises(ValueError, match="at least 1 example, got 0"):
        PerExample(np.array([1]), one, 0)
    with pytest.raises(ValueError, match=r"must have shape \(1, 2\), got \(1, 1\)"):
        PerExample(np.array([1]), one, 9)
    with pytest.raises(ValueError, match=r"must have shape \(2, 1\), got \(1, 1\)"):
        PerExample(np.array([1, 2]), one, 8)
    with pytest.raises(ValueError, match="must increase, each step once"):
        PerExample(np.array([2, 2]), np.zeros((2, 1), np.uint8), 8)


@pytest.mark.parametrize("n", [1, 8, 9, 20])
def test_a_last_record_torn_at_any_byte_is_left_out(tmp_path: Path, n: int) -> None:
    folder = tmp_path / "per_example"
    write(folder, 0, {1: [1] * n, 2: [0] * n}, n)
    data = (folder / "0.bin").read_bytes()
    size = 8 + -(-n // 8)
    for cut in range(size, 2 * size):
        (folder / "0.bin").write_bytes(data[:cut])
        found, warnings = read_per_example(folder, ["a"])
        assert found["a"].steps.tolist() == [1]
        assert found["a"].accuracy().tolist() == [1.0]
        assert len(warnings) == (cut > size)
        assert all("0.bin: the last record is cut off" in warning for warning in warnings)


def points(folder: Path, scores: dict[int, float], n: str = "10") -> Path:
    """Write a run folder of one task whose probes had these scores."""
    folder.mkdir(exist_ok=True)
    lines = [f"{step},a,a,probe,{score},{n}\n" for step, score in scores.items()]
    last = max(scores)
    lines.append(f"{last},a,a,full,.5,1000\n")
    (folder / "points.csv").write_text("step,trained,tested,kind,score,n\n" + "".join(lines))
    (folder / "done.json").write_text("{}")
    return folder


def test_a_run_folder_brings_its_hits(tmp_path: Path) -> None:
    run = points(tmp_path / "run", {3: 0.5, 258: 0.0, 70000: 1.0})
    write(run / "per_example", 0, RIGHT, 10)
    found = read_input(str(run))
    assert found.per_example["a"].accuracy().tolist() == [0.5, 0.0, 1.0]
    beside = read_input(str(run / "points.csv"), per_example=run / "per_example")
    assert beside.per_example["a"].steps.tolist() == [3, 258, 70000]


@pytest.mark.parametrize("step", RIGHT)
def test_hits_of_another_run_are_refused(tmp_path: Path, step: int) -> None:
    """One example more or less right at one step is enough."""
    run = points(tmp_path / "run", {3: 0.5, 258: 0.0, 70000: 1.0})
    other = {t: list(bits) for t, bits in RIGHT.items()}
    other[step][1] = 1 - other[step][1]
    write(run / "per_example", 0, other, 10)
    with pytest.raises(
        InputError, match=rf"per_example: task 'a' at step {step} has .* another run"
    ):
        read_input(str(run))


def test_hits_of_other_subsets_are_refused(tmp_path: Path) -> None:
    """The points say that each probe used 10 examples, the hits hold 20."""
    run = points(tmp_path / "run", {1: 0.5, 2: 0.5})
    write(run / "per_example", 0, {1: [1] * 20, 2: [0] * 20}, 20)
    with pytest.raises(InputError, match=r"per.example"):
        read_input(str(run))


@pytest.mark.parametrize("count", [5, 9, 17, 80])
def test_indices_of_another_subset_are_refused(tmp_path: Path, count: int) -> None:
    """Records are then read at the wrong places, or their padding as examples."""
    run = points(tmp_path / "run", {3: 0.5, 258: 0.0, 70000: 1.0})
    write(run / "per_example", 0, RIGHT, 10)
    np.save(run / "per_example" / "0.npy", np.arange(count))
    with pytest.raises(InputError, match=r"per.example"):
        read_input(str(run))


def test_rounded_scores_still_belong_together(tmp_path: Path) -> None:
    run = points(tmp_path / "run", {1: 0.3333, 2: 0.6667}, n="3")
    write(run / "per_example", 0, {1: [1, 0, 0], 2: [1, 1, 0]}, 3)
    assert len(read_input(str(run)).per_example["a"]) == 2


def test_a_run_killed_in_its_first_record_is_still_scored(tmp_path: Path) -> None:
    run = points(tmp_path / "run", {3: 0.5, 258: 0.0, 70000: 1.0})
    for cut in range(10):
        write(run / "per_example", 0, {3: RIGHT[3]}, 10)
        whole = (run / "per_example" / "0.bin").read_bytes()
        (run / "per_example" / "0.bin").write_bytes(whole[:cut])
        found = read_input(str(run))
        assert found.stream is not None
        assert found.per_example == {}


def test_what_is_no_folder_of_hits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_per_example(tmp_path / "per_example", ["a"])
    folder = tmp_path / "per_example"
    folder.mkdir()
    with pytest.raises(InputError, match=r"no per-example results, expected 0\.bin"):
        read_per_example(folder, ["a"])
    write(folder, 2, RIGHT, 10)
    with pytest.raises(InputError, match=r"2\.bin: expected a task's number from 0 to 1"):
        read_per_example(folder, ["a", "b"])
    (folder / "2.bin").rename(folder / "first.bin")
    with pytest.raises(InputError, match=r"first\.bin: expected a task's number"):
        read_per_example(folder, ["a", "b"])


def test_steps_must_increase(tmp_path: Path) -> None:
    write(tmp_path / "per_example", 0, {5: [1], 4: [1]}, 1)
    with pytest.raises(InputError, match=r"0\.bin record 1: step 4 does not follow 5"):
        read_per_example(tmp_path / "per_example", ["a"])


@pytest.mark.parametrize(
    "indices",
    [np.zeros((2, 5), int), np.zeros(10), np.zeros(0, int), np.array(3), np.array(["a"] * 10)],
    ids=["table", "floats", "empty", "number", "text"],
)
def test_indices_must_be_whole_numbers_in_a_row(tmp_path: Path, indices: "np.ndarray") -> None:
    write(tmp_path / "per_example", 0, RIGHT, 10)
    np.save(tmp_path / "per_example" / "0.npy", indices)
    with pytest.raises(InputError, match=r"0\.npy"):
        read_per_example(tmp_path / "per_example", ["a"])


def test_indices_missing_torn_or_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "per_example"
    write(folder, 0, RIGHT, 10)
    whole = (folder / "0.npy").read_bytes()
    for cut in range(len(whole)):
        (folder / "0.npy").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"0\.npy"):
            read_per_example(folder, ["a"])
    (folder / "0.npy").write_bytes(b"what is this" * 20)
    with pytest.raises(InputError, match=r"0\.npy: not a NumPy array file"):
        read_per_example(folder, ["a"])
    (folder / "0.npy").unlink()
    with pytest.raises(InputError, match=r"0\.npy: no such file"):
        read_per_example(folder, ["a"])


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.path), 0o700)


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    trap, folder = tmp_path / "trap", tmp_path / "per_example"
    pickle.loads(pickle.dumps(Payload(trap)))
    assert trap.exists()  # the payload works
    trap.rmdir()
    write(folder, 0, RIGHT, 10)
    objects = np.empty(10, object)
    objects[:] = Payload(trap)
    np.save(folder / "0.npy", objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"0\.npy: holds Python objects.*nothing is unpickled"):
        read_per_example(folder, ["a"])
    (folder / "0.npy").write_bytes(pickle.dumps(Payload(trap)))
    with pytest.raises(InputError, match=r"0\.npy: not a NumPy array file"):
        read_per_example(folder, ["a"])
    assert not trap.exists()
