"""Fetching from a hub on this machine, which fails in every way that the real one can."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perdure.data import _hub, _location, fetch, load, verify
from perdure.data._hub import list_files
from perdure.data.registry import DATASETS
from perdure.record import InputError

from .cli_helpers import environment, run, says, start
from .data_helpers import COMMIT, OTHER, TOKEN, Hub, grey, picture, tree, write_pack, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from perdure.data._hub import RemoteDataset

TRAIN, TEST = "mnist/train-00000-of-00001.parquet", "mnist/test-00000-of-00001.parquet"
API, RESOLVE = "/api/datasets/ylecun/mnist", "/datasets/ylecun/mnist/resolve"


@pytest.fixture
def images(tmp_path: Path) -> dict[str, NDArray[np.uint8]]:
    return write_pack(tmp_path / "origin")


@pytest.fixture
def hub(
    tmp_path: Path, images: dict[str, NDArray[np.uint8]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hub]:
    """A hub with MNIST (a small one), an empty cache, no mirror, and a token to keep secret."""
    origin = tmp_path / "origin"
    files = {
        TRAIN: (origin / "train.parquet").read_bytes(),
        TEST: (origin / "test.parquet").read_bytes(),
        "mnist/train-notes.txt": b"not asked for",
        "other/train-00000-of-00001.parquet": b"not asked for",
        "README.md": b"not asked for",
    }
    served = Hub("ylecun/mnist", files)
    monkeypatch.setenv("HF_ENDPOINT", served.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PERDURE_DATA", raising=False)
    monkeypatch.setattr(_hub, "CHUNK_BYTES", 1000)
    monkeypatch.setattr("perdure.data._hub.time.sleep", lambda _: None)
    yield served
    served.close()


def cached(tmp_path: Path) -> dict[str, str]:
    """Return what stands in the cache under the name of the dataset."""
    return tree(tmp_path / "cache" / "mnist")


def works_now(tmp_path: Path, images: dict[str, NDArray[np.uint8]]) -> None:
    """Fail unless fetching and loading give the right data and nothing else is left."""
    found = load("mnist")
    assert np.array_equal(found.train.x[:, 0], images["train"])
    assert np.array_equal(found.test.x[:, 0], images["test"])
    assert found.revision == COMMIT
    assert sorted(cached(tmp_path)) == ["source.json", "test.parquet", "train.parquet"]
    assert [path.name for path in (tmp_path / "cache" / "partial").iterdir()] == ["mnist.lock"]
    assert load("mnist").source == "cache"


def refused(tmp_path: Path, *words: str) -> str:
    """Return why fetching fails, after judging the message and the cache."""
    before = cached(tmp_path)
    with pytest.raises(InputError) as caught:
        load("mnist")
    line = str(caught.value)
    says(line, "ylecun/mnist", *words)
    assert "\n" not in line
    assert TOKEN not in line
    assert cached(tmp_path) == before == {}
    return line


def test_a_dataset_is_fetched_once(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    found = load("mnist")
    assert (found.source, found.revision) == ("hub", COMMIT)
    asked = len(hub.seen)
    works_now(tmp_path, images)
    assert len(hub.seen) == asked, "asked again for what is here"
    said = json.loads((tmp_path / "cache" / "mnist" / "source.json").read_text())
    assert (said["repository"], said["commit"]) == ("ylecun/mnist", COMMIT)
    for here, path in {"train.parquet": TRAIN, "test.parquet": TEST}.items():
        assert said["files"][here] == {
            "path": path,
            "size": len(hub.files[path]),
            "sha256": hashlib.sha256(hub.files[path]).hexdigest(),
        }
    assert {check.state for check in verify("mnist")} == {"right"}


def test_the_hub_learns_little_and_others_get_no_token(hub: Hub) -> None:
    fetch("mnist")
    assert hub.asked(RESOLVE)[0]["authorization"] == f"Bearer {TOKEN}"
    assert all("authorization" not in headers for headers in hub.asked("/bytes/"))
    agents = {headers["user-agent"] for _, headers in hub.seen}
    assert not any("torch" in agent for agent in agents)
    paths = {path.split("/")[1] for path, _ in hub.seen}
    assert paths == {"api", "datasets", "bytes"}, "telemetry was sent"


def test_shards_get_names_of_their_own(hub: Hub, tmp_path: Path) -> None:
    x = grey(6)
    parts = []
    for k in range(3):
        files = [picture(one) for one in x[2 * k : 2 * k + 2]]
        parts.append(write_parquet(tmp_path / f"{k}.parquet", files, [k, k]).read_bytes())
    del hub.files[TRAIN]
    for k in (2, 0, 1):
        hub.files[f"mnist/train-0000{k}-of-00003-0a1b2c.parquet"] = parts[k]
    found = load("mnist")
    assert np.array_equal(found.train.x[:, 0], x)
    assert "train-00002-of-00003.parquet" in found.sha256


def test_ten_classes_come_with_the_whole(hub: Hub, tmp_path: Path) -> None:
    names = [f"n{k:08}" for k in range(200)]
    names[50:60] = ["n02124075", "n04067472", "n04540053", "n04099969", "n07749582", "n01641577",
                    "n02802426", "n09246464", "n07920052", "n03970156"]  # fmt: skip
    hub.repository, hub.files = "zh-plus/tiny-imagenet", {}
    x = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    for split, labels in {"train": [51, 0, 59], "valid": [199, 50, 1]}.items():
        path = tmp_path / f"{split}.parquet"
        write_parquet(path, [picture(one) for one in x], labels, names=names)
        hub.files[f"data/{split}-00000-of-00001-1a2b.parquet"] = path.read_bytes()
    found = load("tiny-imagenet-10")
    assert (found.name, found.source, found.revision) == ("tiny-imagenet-10", "hub", COMMIT)
    assert found.train.y.tolist() == [1, 9]
    assert found.test.y.tolist() == [0]
    assert np.array_equal(found.test.x, x[1:2].transpose(0, 3, 1, 2))
    assert load("tiny-imagenet-10").source == "cache"


def test_a_cut_connection_is_resumed(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    hub.cut[TRAIN] = [5500]
    works_now(tmp_path, images)
    assert [headers.get("range") for headers in hub.asked(f"/bytes/{TRAIN}")] == [
        None,
        "bytes=5000-",  # whole chunks are kept
    ]


def test_a_connection_that_stays_cut_is_resumed_by_the_next_fetch(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    hub.cut[TRAIN] = [5500] + [0] * 8
    refused(tmp_path, "the connection to", "fetch again", "resumes the download")
    hub.cut.clear()
    hub.seen.clear()
    works_now(tmp_path, images)
    assert [headers.get("range") for headers in hub.asked(f"/bytes/{TRAIN}")] == ["bytes=5000-"]


def test_a_server_that_ignores_ranges_starts_again(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    hub.ranges = False
    hub.cut[TRAIN] = [5500]
    works_now(tmp_path, images)
    assert len(hub.asked(f"/bytes/{TRAIN}")) == 2


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_thrown_away(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]], keep: float
) -> None:
    hub.served[TEST] = hub.files[TEST][: int(len(hub.files[TEST]) * keep)]
    refused(tmp_path, TEST, f"{len(hub.served[TEST]):,} bytes", f"{len(hub.files[TEST]):,} bytes")
    hub.served.clear()
    works_now(tmp_path, images)


def test_a_file_that_is_too_long_is_thrown_away(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    hub.served[TEST] = hub.files[TEST] + b"more"
    refused(tmp_path, TEST, "discarded")
    hub.served.clear()
    works_now(tmp_path, images)


def test_a_hub_that_sends_without_end_is_stopped(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    hub.served[TEST] = hub.files[TEST] + bytes(20 << 20)
    line = refused(tmp_path, TEST, "discarded")
    received = re.search(r"with ([0-9,]+) bytes", line)
    assert received is not None
    assert int(received[1].replace(",", "")) <= len(hub.files[TEST]) + _hub.CHUNK_BYTES
    hub.served.clear()
    works_now(tmp_path, images)


def test_links_in_a_shared_cache_are_not_followed(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("keep me")
    partial = tmp_path / "cache" / "partial"
    part = _location._partial_file(partial / "mnist" / COMMIT, _hub.RemoteFile(TRAIN, 1, ""))
    for planted in (partial / "mnist.lock", part):
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.symlink_to(mine)
        with pytest.raises(InputError, match=planted.name):
            fetch("mnist")
        assert mine.read_text() == "keep me"
        planted.unlink()
    works_now(tmp_path, images)


@pytest.fixture
def pins(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> RemoteDataset:
    """What the hub offers, pinned."""
    info = DATASETS["mnist"]
    assert info.files is not None
    found = list_files("ylecun/mnist", info.files, None)
    monkeypatch.setattr(_hub, "_read_pins", lambda: {"ylecun/mnist": found})
    hub.seen.clear()
    return found


def test_the_pinned_commit_is_fetched(
    hub: Hub, pins: RemoteDataset, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    works_now(tmp_path, images)
    assert hub.asked(f"/revision/{pins.commit}")
    hub.commit = OTHER
    with pytest.raises(InputError, match="expected one of its branches"):
        fetch("mnist", force=True)


@pytest.mark.parametrize("lie", ["bytes", "size", "more", "fewer"])
def test_a_hub_that_offers_other_bytes_is_refused_before_any_come(
    lie: str, hub: Hub, pins: RemoteDataset, tmp_path: Path
) -> None:
    if lie == "bytes":
        hub.files[TEST] = bytes(len(hub.files[TEST]))
    elif lie == "size":
        hub.files[TEST] += b"more"
    elif lie == "more":
        hub.files[TEST.replace("00001.parquet", "00002.parquet")] = b"more"
    else:
        del hub.files[TEST]
    refused(tmp_path)
    assert not hub.asked("/bytes/")


@pytest.mark.parametrize(
    ("lie", "words"),
    [(10**12, "1,000,000,0"), (-1, "did not answer like a hub"), (0, "did not answer")],
)
def test_a_hub_that_offers_too_much_is_refused_before_any_comes(
    lie: int, words: str, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = hub.description

    def lying() -> dict[str, Any]:
        found = described()
        found["siblings"][0]["lfs"]["size"] = lie
        return found

    monkeypatch.setattr(hub, "description", lying)
    refused(tmp_path, words)
    assert not hub.asked("/bytes/")


def test_a_hub_that_offers_too_many_files_is_refused(hub: Hub, tmp_path: Path) -> None:
    for k in range(200):
        hub.files[f"mnist/train-{k:05}.parquet"] = b"x"
    refused(tmp_path, "202 files", "nothing was downloaded")
    assert not hub.asked("/bytes/")


def test_pins_are_of_named_datasets_and_whole() -> None:
    said = json.loads(_hub.PINS_FILE.read_text())
    named = {info.repository for info in DATASETS.values()}
    assert set(said) <= named
    for pin in said.values():
        assert re.fullmatch("[0-9a-f]{40}", pin["commit"])
        for _, size, sha256 in pin["files"].values():
            assert size > 0
            assert re.fullmatch("[0-9a-f]{64}", sha256)


def test_a_wrong_hash_is_thrown_away(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    wrong = bytearray(hub.files[TRAIN])
    wrong[1234] ^= 1
    hub.served[TRAIN] = bytes(wrong)
    is_now = hashlib.sha256(wrong).hexdigest()
    expected = hashlib.sha256(hub.files[TRAIN]).hexdigest()
    refused(tmp_path, TRAIN, is_now[:16], expected[:16], "fetch again")
    hub.served.clear()
    works_now(tmp_path, images)


def test_a_partial_file_with_other_bytes_is_found_out(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    hub.cut[TRAIN] = [5500] + [0] * 8
    refused(tmp_path, "the connection to")
    hub.cut.clear()
    (part,) = (tmp_path / "cache" / "partial").rglob("*.part")
    part.write_bytes(b"?" * part.stat().st_size)
    refused(tmp_path, "sha256", "discarded")
    works_now(tmp_path, images)


FAILURES: dict[str, tuple[str, tuple[int, dict[str, str], bytes], tuple[str, ...]]] = {
    "no such repository": (
        API, (401, {"X-Error-Message": "Invalid username or password."}, b"{}"),
        ("not found", "HF_TOKEN", "PERDURE_DATA"),
    ),
    "repository removed": (
        API, (404, {"X-Error-Code": "RepoNotFound"}, b"{}"), ("not found", "PERDURE_DATA"),
    ),
    "gated": (
        API, (403, {"X-Error-Code": "GatedRepo"}, b"{}"), ("accept its terms", "hf auth login"),
    ),
    "files gated": (
        RESOLVE, (401, {"X-Error-Code": "GatedRepo"}, b"{}"), ("accept its terms",),
    ),
    "token refused": (
        API, (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, b"{}"),
        ("HF_TOKEN",),
    ),
    "forbidden": (RESOLVE, (403, {}, b"no"), ("not accessible (403)", "HF_TOKEN")),
    "out of order": (API, (503, {}, b"later"), ("answered 503", "try again later")),
    "bytes out of order": ("/bytes/", (500, {}, b"oh"), ("answered 500",)),
    "file gone": (RESOLVE, (404, {"X-Error-Code": "EntryNotFound"}, b""), ("answered 404",)),
    "login page": (API, (200, {}, b"<html>Please log in</html>"), ("did not answer like a hub",)),
    "not an object": (API, (200, {}, b"[]"), ("did not answer like a hub",)),
    "empty object": (API, (200, {}, b"{}"), ("did not answer like a hub",)),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_one_line_and_the_next_try_works(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]], failure: str
) -> None:
    prefix, answer, words = FAILURES[failure]
    hub.answers[prefix] = answer
    refused(tmp_path, *words)
    hub.answers.clear()
    works_now(tmp_path, images)


@pytest.mark.parametrize("at", ["http://127.0.0.1:9", "http://hub.invalid", "not-an-address"])
def test_no_hub_and_no_network(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]],
    monkeypatch: pytest.MonkeyPatch, at: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_ENDPOINT", at)
    refused(tmp_path, at, "check the network", "PERDURE_DATA")
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    works_now(tmp_path, images)


def test_offline_mode_is_named(hub: Hub) -> None:
    answer = start("data", "fetch", "mnist", HF_HUB_OFFLINE="1")
    assert answer.code == 2
    says(answer.err, "HF_HUB_OFFLINE is set")
    assert hub.seen == []


@pytest.mark.parametrize("commit", ["../../../etc", "", "zz", "a" * 39])
def test_a_commit_that_is_none_is_refused(hub: Hub, tmp_path: Path, commit: str) -> None:
    hub.commit = commit
    refused(tmp_path, "expected a commit")


@pytest.mark.parametrize(
    "path",
    [
        "mnist/train-../../../../evil.parquet",
        "mnist/train-/x.parquet",
        "/mnist/train-.parquet",
    ],
)
def test_paths_that_lead_elsewhere_are_no_files_of_ours(
    hub: Hub, tmp_path: Path, path: str
) -> None:
    hub.files[path] = hub.files.pop(TRAIN)
    before = set(tree(tmp_path))
    refused(tmp_path, "has no mnist/train-*.parquet")
    assert {name for name in tree(tmp_path) if name not in before} == {"cache/partial/mnist.lock"}


@pytest.mark.parametrize("lfs", [None, {}, {"size": 5, "sha256": "no", "pointerSize": 1}])
def test_files_without_a_hash_are_refused(
    hub: Hub, tmp_path: Path, lfs: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = hub.description()
    for sibling in said["siblings"]:
        sibling["lfs"] = lfs
    hub.answers[API] = (200, {}, json.dumps(said).encode())
    refused(tmp_path, "did not answer like a hub")


def test_revisions(hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]) -> None:
    with pytest.raises(InputError, match="revision is 'v9', expected one of its branches"):
        fetch("mnist", revision="v9")
    assert cached(tmp_path) == {}
    assert fetch("mnist", revision="main").fetched == len(hub.files[TRAIN]) + len(hub.files[TEST])
    again = fetch("mnist", revision=COMMIT)
    assert (again.source, again.fetched) == ("cache", 0)
    hub.commit = OTHER
    assert fetch("mnist").commit == COMMIT, "what is here is taken"
    newer = write_pack(tmp_path / "newer", seed=9)
    hub.files[TRAIN] = (tmp_path / "newer" / "train.parquet").read_bytes()
    assert fetch("mnist", revision="main").commit == OTHER
    found = load("mnist")
    assert found.revision == OTHER
    assert np.array_equal(found.train.x[:, 0], newer["train"])


def test_fresh_replaces_a_damaged_copy_and_a_failure_keeps_the_old_one(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    fetch("mnist")
    path = tmp_path / "cache" / "mnist" / "train.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    before = cached(tmp_path)
    with pytest.raises(InputError, match="again: `perdure data fetch mnist` with `force=True`"):
        load("mnist")
    hub.served[TEST] = b"short"
    with pytest.raises(InputError, match="discarded"):
        fetch("mnist", force=True)
    assert cached(tmp_path) == before
    hub.served.clear()
    fetch("mnist", force=True)
    works_now(tmp_path, images)


def test_a_mirror_is_enough(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pack(tmp_path / "mirror" / "mnist")
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path / "mirror"))
    assert fetch("mnist").source == "mirror"
    assert load("mnist").source == "mirror"
    assert hub.seen == []
    assert fetch("mnist", force=True).source == "hub"
    assert load("mnist").source == "cache"


def test_a_cache_that_cannot_be_written(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match=r"not a directory; .*PERDURE_CACHE"):
        load("mnist")


def test_a_full_disk_is_one_line(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "from perdure.cli import main; main()"
    )
    answer = start("-c", script, "data", "fetch", "mnist", command=[sys.executable])
    assert answer.code == 2, answer.err
    says(answer.err, "file too large", "PERDURE_CACHE")
    assert len(answer.err.splitlines()) == 1
    assert cached(tmp_path) == {}
    works_now(tmp_path, images)


INTERRUPTED = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
from perdure.data import _hub; _hub.CHUNK_BYTES = 1000
from perdure.cli import main; main()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_download_is_resumed(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]], how: signal.Signals
) -> None:
    hub.stall = threading.Event()
    command = [sys.executable, "-c", INTERRUPTED, "data", "fetch", "mnist"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(), text=True)
    assert hub.stalled.wait(60)
    parts = tmp_path / "cache" / "partial" / "mnist"
    while not any(path.stat().st_size for path in parts.rglob("*.part")):
        assert process.poll() is None
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    hub.stall.set()
    hub.stall = None
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert err == "perdure: interrupted; the same command resumes the download\n"
    assert cached(tmp_path) == {}
    kept = sum(path.stat().st_size for path in parts.rglob("*.part"))
    assert 0 < kept <= len(hub.files[TRAIN]) // 2
    hub.seen.clear()
    works_now(tmp_path, images)
    assert hub.asked(f"/bytes/{TRAIN}")[0]["range"] == f"bytes={kept}-"


def test_two_processes_fetch_at_once(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    command = [sys.executable, "-c", "from perdure.data import load; print(load('mnist').revision)"]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True)
        for _ in range(2)
    ]
    for process in running:
        assert process.communicate(timeout=60)[0] == COMMIT + "\n"
    assert len(hub.asked(f"/bytes/{TRAIN}")) == 1, "the second waits for the first"
    works_now(tmp_path, images)


def test_a_kill_between_the_two_renames_is_repaired(
    hub: Hub, tmp_path: Path, images: dict[str, NDArray[np.uint8]]
) -> None:
    fetch("mnist")
    script = (
        "import os, pathlib, signal\n"
        "real = pathlib.Path.rename\n"
        "def rename(self, to):\n"
        "    done = real(self, to)\n"
        "    if pathlib.Path(to).name == 'old': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return done\n"
        "pathlib.Path.rename = rename\n"
        "from perdure.data import fetch; fetch('mnist', force=True)"
    )
    assert start("-c", script, command=[sys.executable]).code == -signal.SIGKILL
    works_now(tmp_path, images)


def test_the_command_says_what_was_fetched(hub: Hub, tmp_path: Path) -> None:
    answer = run("data", "fetch", "mnist")
    assert answer.code == 0, answer.err
    total = len(hub.files[TRAIN]) + len(hub.files[TEST])
    says(answer.out, "mnist: fetched, 2 files", f"{total:,} bytes", "ylecun/mnist", COMMIT)
    assert str(tmp_path / "cache" / "mnist") in answer.out
    says(run("data", "fetch", "mnist").out, "here already", "--force")
    assert TOKEN not in str(run("data", "where", "mnist")) + answer.out + answer.err
