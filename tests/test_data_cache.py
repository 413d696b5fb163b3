"""The decoded cache: killed, shared, full, read-only, damaged, and out of date."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.data import load, locate, verify
from perdure.record import InputError

from .cli_helpers import environment, says, start
from .data_helpers import grey, picture, write_pack, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# A child for each moment, which dies by its own hand just before or after one step of keeping
# what it decoded.
KILLED = """
import json, os, pathlib, signal, sys
import duckdb, numpy as np, PIL.Image
import perdure.data, perdure.data._decoding as room

def dying(function, after, number):
    calls = [0]
    def wrapped(*arguments, **options):
        calls[0] += 1
        if calls[0] == number and not after: os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        if calls[0] == number and after: os.kill(os.getpid(), signal.SIGKILL)
        return result
    return wrapped

for cache, step, when, number in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        owner, name = step.split(".")
        owner = {"room": room, "np": np, "Path": pathlib.Path}[owner]
        setattr(owner, name, dying(getattr(owner, name), when == "after", number))
        os.environ["PERDURE_CACHE"] = cache
        perdure.data.load("mnist", fetch=False)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, step
"""
MOMENTS = {
    "folder made": ("room._write", "before", 1),
    "images half written": ("room.read_images", "before", 2),
    "images written": ("np.save", "before", 1),
    "labels written": ("np.save", "after", 1),
    "all but the rename": ("Path.rename", "before", 1),
    "train in place": ("Path.rename", "after", 1),
    "test not in place": ("Path.rename", "before", 2),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path / "mirror"))
    return tmp_path


def decoded(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "cache" / "decoded").glob("*"))


def two_shards(home: Path) -> NDArray[np.uint8]:
    x = grey(40)
    for k in range(2):
        part = [picture(one) for one in x[20 * k : 20 * k + 20]]
        path = home / "mirror" / "mnist" / f"train-0000{k}-of-00002.parquet"
        write_parquet(path, part, [k] * 20)
    write_parquet(home / "mirror" / "mnist" / "test.parquet", [picture(x[0])], [0])
    return x


def test_a_kill_leaves_nothing_half(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = two_shards(home)
    plan = [(str(home / name), *moment) for name, moment in MOMENTS.items()]
    answer = start("-c", KILLED, json.dumps(plan), command=[sys.executable])
    assert answer.code == 0, answer.err
    for name in MOMENTS:
        cache = home / name
        whole = list((cache / "decoded").glob("[!.]*"))
        assert len(whole) == (1 if name.startswith("t") else 0)
        for path in whole:
            about = json.loads((path / "about.json").read_text())
            for file in ("x.npy", "y.npy"):
                is_now = hashlib.sha256((path / file).read_bytes()).hexdigest()
                assert is_now == about["sha256"][file]
        monkeypatch.setenv("PERDURE_CACHE", str(cache))
        found = load("mnist", fetch=False)
        assert np.array_equal(found.train.x[:, 0], x), name
        assert found.train.y.tolist() == [0] * 20 + [1] * 20
        left = [path.name for path in (cache / "decoded").iterdir()]
        assert len(left) == 2, f"{name}: what the dead left is still there"


TOGETHER = """
import hashlib, pathlib, sys, time
from perdure.data import load
pathlib.Path(sys.argv[1]).touch()
while len(list(pathlib.Path(sys.argv[1]).parent.iterdir())) < 3: time.sleep(0.001)
found = load("mnist", fetch=False)
for split in (found.train, found.test):
    print(hashlib.sha256(split.x.tobytes()).hexdigest(), split.y.sum())
print(found.notes)
"""


def test_several_processes_decode_the_same_at_once(home: Path) -> None:
    images = write_pack(home / "mirror" / "mnist", train=300, test=20)
    (home / "ready").mkdir()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, str(home / "ready" / str(k))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True,
        )
        for k in range(3)
    ]  # fmt: skip
    expected = [
        f"{hashlib.sha256(images['train'].tobytes()).hexdigest()} {30 * 45}",
        f"{hashlib.sha256(images['test'].tobytes()).hexdigest()} {2 * 45}",
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert out.splitlines()[:2] == expected, err
        assert "memory" not in out
    assert len(decoded(home)) == 2


def test_what_is_loaded_is_mapped_and_cannot_be_written(home: Path) -> None:
    write_pack(home / "mirror" / "mnist")
    for found in (load("mnist"), load("mnist")):
        assert isinstance(found.train.x, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            found.train.x[0] = 0


def test_the_second_time_nothing_is_decoded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = write_pack(home / "mirror" / "mnist")
    load("mnist")
    monkeypatch.setitem(sys.modules, "duckdb", None)  # would be needed for decoding
    assert np.array_equal(load("mnist").train.x[:, 0], images["train"])


def test_other_bytes_under_the_same_name_are_other_data(home: Path) -> None:
    folder = home / "mirror" / "mnist"
    write_pack(folder, seed=1)
    first = load("mnist")
    images = write_pack(folder, seed=3)
    second = load("mnist")
    assert np.array_equal(second.train.x[:, 0], images["train"])
    assert first.sha256 != second.sha256
    path = folder / "train.parquet"
    assert second.sha256["train.parquet"] == hashlib.sha256(path.read_bytes()).hexdigest()
    write_pack(folder, seed=1)
    assert np.array_equal(load("mnist").train.x, first.train.x)
    assert len(decoded(home)) == 4


def test_hashes_are_remembered_until_size_or_time_change(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pack(home / "mirror" / "mnist")
    load("mnist")

    def fail(path: Path) -> str:
        raise AssertionError(f"{path} was hashed again")

    monkeypatch.setattr("perdure.data.paths.compute_sha256", fail)
    load("mnist")
    os.utime(home / "mirror" / "mnist" / "test.parquet", ns=(1, 1))
    with pytest.raises(AssertionError, match=r"test\.parquet was hashed again"):
        load("mnist")


@pytest.mark.parametrize("rubbish", ["", "{", "[]", '{"size": 1}', "null"])
def test_a_damaged_memory_of_hashes_is_no_harm(home: Path, rubbish: str) -> None:
    images = write_pack(home / "mirror" / "mnist")
    load("mnist")
    for path in (home / "cache" / "hashes").iterdir():
        path.write_text(rubbish)
    assert np.array_equal(load("mnist").train.x[:, 0], images["train"])


@pytest.mark.parametrize("file", ["x.npy", "y.npy", "about.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "empty", "rubbish"])
def test_a_damaged_decoded_file_is_decoded_anew(home: Path, file: str, damage: str) -> None:
    images = write_pack(home / "mirror" / "mnist")
    load("mnist")
    for folder in (home / "cache" / "decoded").iterdir():
        path = folder / file
        data = path.read_bytes()
        path.unlink()
        if damage != "gone":
            path.write_bytes({"cut": data[:-7], "empty": b"", "rubbish": b"x" * 50}[damage])
    found = load("mnist")
    assert np.array_equal(found.train.x[:, 0], images["train"])
    assert np.array_equal(found.test.x[:, 0], images["test"])
    assert not any("memory" in note for note in found.notes)
    assert all(check.state == "right" for check in verify("mnist"))


def test_a_pickle_in_the_cache_is_not_opened(home: Path) -> None:
    images = write_pack(home / "mirror" / "mnist")
    load("mnist")
    for folder in (home / "cache" / "decoded").iterdir():
        with (folder / "x.npy").open("wb") as file:
            np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert np.array_equal(load("mnist").train.x[:, 0], images["train"])


def test_a_cache_that_cannot_be_written_decodes_into_memory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = write_pack(home / "mirror" / "mnist")
    (home / "file").write_text("in the way")  # a folder without rights is no obstacle to root
    monkeypatch.setenv("PERDURE_CACHE", str(home / "file" / "cache"))
    found = load("mnist")
    assert np.array_equal(found.train.x[:, 0], images["train"])
    assert np.array_equal(found.test.x[:, 0], images["test"])
    assert not found.train.x.flags.writeable
    notes = [note for note in found.notes if "decoded in memory" in note]
    says(notes[0], "cannot be written", str(home / "file" / "cache"), "not a directory")
    assert len(notes) == 2


@pytest.mark.skipif(os.getuid() == 0, reason="rights are no obstacle to root")
def test_a_cache_without_rights_decodes_into_memory(home: Path) -> None:
    images = write_pack(home / "mirror" / "mnist")
    (home / "cache").mkdir(mode=0o500)
    assert np.array_equal(load("mnist").train.x[:, 0], images["train"])


def test_a_full_disk_decodes_into_memory_and_leaves_nothing(home: Path) -> None:
    write_pack(home / "mirror" / "mnist", train=100)
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "from perdure.data import load\n"
        "found = load('mnist', fetch=False)\n"
        "print(found.train.x.shape, *found.notes, sep='\\n')"
    )
    answer = start("-c", script, command=[sys.executable])
    says(answer.out, "(100, 1, 28, 28)", "train decoded in memory", "file too large")
    assert [name.split("-")[1] for name in decoded(home)] == ["test"]


def test_source_json_guards_what_was_fetched(home: Path) -> None:
    folder = home / "cache" / "mnist"
    write_pack(folder)
    said = {
        "repository": "some/where", "commit": "a" * 40,
        "files": {
            f"{split}.parquet": {
                "sha256": hashlib.sha256((folder / f"{split}.parquet").read_bytes()).hexdigest()
            }
            for split in ("train", "test")
        },
    }  # fmt: skip
    (folder / "source.json").write_text(json.dumps(said))
    assert load("mnist").revision == "a" * 40
    data = bytearray((folder / "test.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "test.parquet").write_bytes(data)
    with pytest.raises(
        InputError,
        match=r"test\.parquet: sha256 is .*`perdure data fetch mnist` with `force=True`",
    ):
        load("mnist")
    for wrong in ("[]", '{"files": ""}', '{"files": []}', '{"files": {"a": {"sha256": 1}}}'):
        (folder / "source.json").write_text(wrong)
        with pytest.raises(InputError, match="was not written by `perdure data fetch`"):
            load("mnist")
        with pytest.raises(InputError, match="was not written by `perdure data fetch`"):
            verify("mnist")


def test_verify_finds_a_flipped_bit_that_keeps_size_and_time(home: Path) -> None:
    folder = home / "mirror" / "mnist"
    write_pack(folder)
    assert {check.state for check in verify("mnist")} == {"unknown"}
    load("mnist")
    assert {check.state for check in verify("mnist")} == {"right"}
    targets = [folder / "test.parquet", locate("mnist").decoded[1]]
    assert targets[1].name == "x.npy"
    for path in targets:
        stat, data = path.stat(), bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    differs = [check.path for check in verify("mnist") if check.state == "differs"]
    assert sorted(differs) == sorted(targets)


def test_where_names_files_and_what_was_decoded(home: Path) -> None:
    write_pack(home / "mirror" / "mnist")
    assert locate("mnist").decoded == ()
    load("mnist")
    found = locate("mnist")
    assert (found.source, found.folder) == ("mirror", home / "mirror" / "mnist")
    assert len(found.decoded) == 6
    shutil.rmtree(home / "mirror")
    assert locate("mnist").source == "hub"
    assert locate("omniglot-magi").source == "nowhere"


def test_the_cache_follows_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pack(home / "mirror" / "mnist")
    monkeypatch.delenv("PERDURE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    load("mnist")
    assert (home / "xdg" / "perdure" / "decoded").is_dir()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(home / "user"))
    load("mnist")
    assert (home / "user" / ".cache" / "perdure" / "decoded").is_dir()
