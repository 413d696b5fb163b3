"""Files of matrices from anywhere: what was written comes back, and nothing else gets in."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perdure.record import InputError, parse_matrices, parse_vector

from .cli_helpers import judged_refusal, refused, run, says, start, write

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

GIB = 1 << 30
scores = st.floats(0, 1) | st.just(float("nan"))
matrices = st.integers(1, 6).flatmap(lambda t: arrays(np.float64, (t, t), elements=scores))


def parse_one(data: bytes, source: str) -> dict[str, Any]:
    (entry,) = parse_matrices(data, source)
    return dict(entry.fields)


def npy(array: Any, **how: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **how)
    return out.getvalue()


def header(shape: str, descr: str = "'<f8'", body: bytes = b"", version: int = 1) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return raw(text, body, version)


def raw(text: bytes, body: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + body


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def text_of(matrix: NDArray[np.float64], separator: str, blank: str) -> bytes:
    rows = [[blank if np.isnan(cell) else repr(float(cell)) for cell in row] for row in matrix]
    return "\n".join(separator.join(row) for row in rows).encode()


@given(matrices)
def test_what_was_written_comes_back(matrix: NDArray[np.float64]) -> None:
    assume(not np.isnan(matrix[0, 0]))  # in a table, a blank corner begins a header
    rows = [[None if np.isnan(cell) else cell for cell in row] for row in matrix.tolist()]
    for data in (
        text_of(matrix, ",", ""),
        text_of(matrix, ";", "-"),
        text_of(matrix, "\t", "nan"),
        text_of(matrix, " ", "nan"),
        json.dumps(rows).encode(),
        json.dumps({"matrix": rows}).encode(),
        npy(matrix),
        npy(np.asfortranarray(matrix)),
        npy(matrix.astype(">f8")),
        npz(anything=matrix),
    ):
        np.testing.assert_array_equal(parse_one(data, "m")["matrix"], matrix)


@pytest.mark.parametrize("kind", ["f2", "f4", "<f8", ">f8", "i8", "u1"])
def test_every_kind_of_number_is_read(kind: str) -> None:
    matrix = np.array([[1, 0], [0, 1]], dtype=kind)
    found = parse_one(npy(matrix), "m.npy")["matrix"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, matrix)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_npy_is_read(version: int) -> None:
    data = header("(1, 1)", body=struct.pack("<d", 0.5), version=version)
    assert parse_one(data, "m.npy")["matrix"].tolist() == [[0.5]]


def test_npz_carries_the_other_fields_too() -> None:
    found = parse_one(npz(matrix=[[0.5]], initial=[0.1], classes=[2], sizes=[9]), "m.npz")
    assert {name: np.asarray(value).tolist() for name, value in found.items()} == {
        "matrix": [[0.5]], "initial": [0.1], "classes": [2], "sizes": [9],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n.9,.1\n.5,.8\n", ["a", "b"]),
        (",a,b\na,.9,.1\nb,.5,.8\n", ["a", "b"]),
        ("after,a,b\na,.9,.1\nb,.5,.8\n", ["a", "b"]),
        (",a,b\n0,.9,.1\n1,.5,.8\n", ["a", "b"]),
        ("a\tb\n.9\t.1\n.5\t.8\n", ["a", "b"]),
        ('"x, y";"z"\n.9;.1\n.5;.8\n', ["x, y", "z"]),
        ("a,.9,.1\nb,.5,.8\n", ["a", "b"]),
        (",0,1\n0,.9,.1\n1,.5,.8\n", None),
        ("1,2\n.9,.1\n.5,.8\n", None),
        (".9,.1\n.5,.8\n", None),
    ],
)
def test_header_and_row_names_are_optional(text: str, names: list[str] | None) -> None:
    found = parse_one(text.encode(), "m.csv")
    np.testing.assert_array_equal(found["matrix"], [[0.9, 0.1], [0.5, 0.8]])
    assert found.get("tasks") == names


def test_a_matrix_of_zeros_and_ones_is_not_taken_for_a_header() -> None:
    for rows in ([[0, 1], [1, 0]], [[1, 0], [0, 1]], [[1]], [[0]], [[1, 1], [1, 1]]):
        data = "\n".join(",".join(map(str, row)) for row in rows).encode()
        assert parse_one(data, "m.csv")["matrix"].tolist() == rows


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"0.1,0.2,0.3", [0.1, 0.2, 0.3]),
        (b"0.1\n0.2\n0.3\n", [0.1, 0.2, 0.3]),
        (b"0.1 0.2  0.3\r\n", [0.1, 0.2, 0.3]),
        (b"\xef\xbb\xbf# b\n0.1;0.2;0.3\n", [0.1, 0.2, 0.3]),
        (b" [0.1, 0.2, 0.3]", [0.1, 0.2, 0.3]),
        (npy([0.1, 0.2, 0.3]), [0.1, 0.2, 0.3]),
        (b"0.1,,0.3", [0.1, None, 0.3]),
        (b"[0.1, null, 0.3]", [0.1, None, 0.3]),
    ],
)
def test_a_vector_may_stand_in_any_of_these(data: bytes, expected: list[float | None]) -> None:
    found = parse_vector(data, "b")
    assert [None if np.isnan(value) else value for value in found] == expected


class Bomb:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    trap = tmp_path / "was executed"
    objects = np.array([[Bomb(trap)]], dtype=object)
    for name, data in (
        ("objects.npy", npy(objects, allow_pickle=True)),
        ("objects.npz", npz(matrix=objects)),
        ("lying.npy", header("(1, 1)", "'|O'", pickle.dumps([[Bomb(trap)]]))),
    ):
        path = write(tmp_path, name, data)
        says(refused("score", path), name, "objects", "numbers")
        says(refused("score", "-", "--classes", path, stdin=b".5"), name)
    says(refused("score", write(tmp_path, "a.pkl", pickle.dumps([[Bomb(trap)]]))), "a.pkl")
    assert not trap.exists()
    pickle.loads(pickle.dumps(Bomb(trap)))  # the trap itself does work
    assert trap.exists()


BAD_ARRAYS = {
    "vector": (npy([0.5, 0.5]), "(2,)"),
    "four_dimensions": (npy(np.full((1, 1, 1, 1), 0.5)), "(1, 1, 1, 1)"),
    "wide": (npy(np.full((2, 3), 0.5)), "(2, 3)"),
    "nothing": (npy(np.empty((0, 0))), "(0, 0)"),
    "scalar": (npy(np.float64(0.5)), "()"),
    "text": (npy(np.array([["0.5"]])), "numbers"),
    "truth": (npy(np.array([[True]])), "numbers"),
    "complex": (npy(np.array([[0.5j]])), "numbers"),
    "dates": (npy(np.zeros((1, 1), "M8[s]")), "numbers"),
    "record": (npy(np.zeros((1, 1), [("a", "f8")])), "numbers"),
    "infinite": (npy([[np.inf]]), "finite"),
    "nan": (npy([[np.nan]]), "missing"),
    "percent_or_loss": (npy([[9.0, 5], [5, 8]]), "percent"),
    "cut_off": (npy(np.full((5, 5), 0.5))[:-1], "cut off"),
    "only_magic": (b"\x93NUMPY", "NumPy"),
    "half_header": (npy([[0.5]])[:40], "NumPy"),
    "no_dict": (raw(b"[1, 2]"), "NumPy"),
    "open_bracket": (raw(b"{'descr': '<f8', 'shape': (((("), "NumPy"),
    "open_string": (raw(b"'''"), "NumPy"),
    "deep_header": (raw(b"-" * 9000 + b"1"), "NumPy"),
    "billion_columns": (header("(1, 1000000000)"), "at most"),
    "billion_squared": (header("(1000000000, 1000000000)"), "at most"),
    "overflowing": (header("(4294967296, 4294967296)"), "at most"),
    "negative": (header("(-1, -1)", body=bytes(8)), "(-1, -1)"),
    "one_negative": (header("(-1, 1)", body=bytes(8)), "(-1, 1)"),
    "true_shape": (header("(True, True)", body=bytes(8)), ""),
    "no_zip": (b"PK\x03\x04 not an archive", "damaged"),
    "half_zip": (npz(matrix=np.eye(9))[:-30], "damaged"),
    "two_arrays": (npz(a=[[0.5, 0.5]], b=[[0.5, 0.5]]), "npx: b"),
    "no_matrix": (npz(), "'matrix'"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_a_bad_array_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    data, word = BAD_ARRAYS[name]
    path = write(tmp_path, f"{name}.npx", data)
    says(refused("score", path), f"{name}.npx", word)


def test_an_old_header_of_python_2_is_read_without_a_warning() -> None:
    answer = run("score", "-", stdin=header("(1L, 1L)", body=struct.pack("<d", 0.5)))
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_flipped_byte_in_an_archive_never_gives_a_traceback(method: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("matrix.npy", npy(np.eye(12)))
    whole = out.getvalue()
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        data = bytearray(whole)
        data[at] ^= 0xFF
        try:
            found = parse_one(bytes(data), "m.npz")["matrix"]
        except InputError as refusal:
            says(str(refusal), "m.npz")
        else:
            np.testing.assert_array_equal(found, np.eye(12))


def test_a_bomb_is_refused_without_being_unpacked(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("matrix.npy", header("(1, 1000000000)", body=bytes(1 << 20)))
    data = bytearray(out.getvalue())
    directory = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, directory + 24, 4_000_000_000)  # what unpacking would give
    says(refused("score", write(tmp_path, "bomb.npz", data)), "bomb.npz", "matrix.npy", "large")


@pytest.mark.parametrize("size", [0, 8 * 10**9])
@pytest.mark.parametrize("shape", ["(1, 1000000000)", "(1000000000, 1000000000)"])
def test_a_billion_columns_are_refused_by_the_header(shape: str, size: int, tmp_path: Path) -> None:
    path = write(tmp_path, "huge.npy", header(shape))
    os.truncate(path, max(size, path.stat().st_size))
    says(judged_refusal(start("score", path, memory=GIB * 3 // 2)), "huge.npy", "large")


def never_a_traceback(data: bytes) -> None:
    answer = run("score", "-", "--per-task", stdin=data)
    assert answer.code in (0, 1, 2), answer.err
    if answer.code == 2:
        judged_refusal(answer)
    else:
        assert answer.err == ""


cells = st.sampled_from(
    [".5", "0.9", "1", "-", "", "nan", "50", "x", '"', "1e9", "a b", "5%", "\0"]
)
ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\x0b", "\u2028"])
tables = st.builds(
    lambda rows, by, end: end.join(by.join(row) for row in rows),
    st.lists(st.lists(cells, min_size=1, max_size=4), max_size=5),
    st.sampled_from([",", ";", "\t", " "]),
    ends,
)
leaves = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3)
trees = st.recursive(leaves, lambda t: st.lists(t, max_size=3) | st.dictionaries(
    st.sampled_from(["matrix", "tasks", "classes", "setting", "initial", "x"]), t, max_size=3
), max_leaves=12)  # fmt: skip
fields = st.sampled_from(["1", "2", "3", "a", "b", "", "probe", "full", "initial", ".5", "x", '"'])
points = st.builds(
    lambda head, rows, end: end.join([head, *(",".join(row) for row in rows)]),
    st.sampled_from(["step,trained,tested,kind,score", "step,tested,score,n,trained"]),
    st.lists(st.lists(fields, min_size=4, max_size=6), max_size=6),
    ends,
)
quick = settings(max_examples=75)


@quick
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="ignore")))
def test_any_bytes(data: bytes) -> None:
    never_a_traceback(data)


@quick
@given(tables)
def test_any_table(text: str) -> None:
    never_a_traceback(text.encode())


@quick
@given(trees)
@example([[0.5], None])
@example({"matrix": None})
@example({"matrix": [[0.5]], "tasks": ["\ud800"]})
def test_any_json(tree: object) -> None:
    never_a_traceback(json.dumps(tree).encode())


@quick
@given(points)
def test_any_points(text: str) -> None:
    never_a_traceback(text.encode())
