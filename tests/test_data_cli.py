"""`perdure data`: list, fetch, where, verify."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from perdure.data import DATASETS, load

from .cli_helpers import refused, run, says, strict
from .data_helpers import mirror, tree, write_pack

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a mirror with a small MNIST in it; no hub."""
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path / "mirror"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    write_pack(tmp_path / "mirror" / "mnist")
    return tmp_path


def printed(*arguments: str) -> Any:
    answer = run("data", *arguments, "--format", "json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_list_has_a_row_for_every_dataset(home: Path) -> None:
    (home / "mirror" / "svhn").mkdir()
    (home / "mirror" / "svhn" / "train.parquet").write_bytes(b"")
    answer = run("data", "list")
    assert answer.code == 0, answer.err
    table = answer.out.split("\n\n")[0]
    rows = {line.split()[0]: line for line in table.splitlines()[1:]}
    assert list(rows) == list(DATASETS)
    assert rows["digits"].endswith("bundled")
    assert rows["mnist"].endswith("mirror")
    assert rows["cifar100"].endswith("to fetch")
    assert rows["tiny-imagenet-10"].endswith("to fetch")
    assert rows["omniglot"].endswith("to provide")
    assert rows["svhn"].endswith("incomplete")
    says(rows["mnist"], "60,000 / 10,000", "10", "CC BY-SA")
    found = strict(run("data", "list", "--format", "json").out)
    assert found["mnist"]["where"] == "mirror"
    assert found["svhn"]["repository"] == "ufldl-stanford/svhn"
    assert not (home / "cache").exists(), "looking leaves nothing behind"


def test_list_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    answer = run("data", "list", terminal=True)
    assert answer.code == 0, answer.err
    plain = re.sub("\x1b[^m]*m", "", answer.out)
    assert max(map(len, plain.splitlines())) <= 100
    for name in DATASETS:
        assert name in plain


def test_where_shows_files_hashes_and_decoded(home: Path) -> None:
    load("mnist")
    answer = run("data", "where")
    hashes = tree(home / "mirror" / "mnist")
    says(answer.out, f"mnist: mirror, {home / 'mirror' / 'mnist'}", *hashes.values(), "decoded: ")
    (only,) = printed("where")
    assert only["sha256"] == hashes
    assert only["folder"] == str(home / "mirror" / "mnist")
    assert len(only["decoded"]) == 6
    says(run("data", "where", "digits").out, "bundled with scikit-learn")
    says(run("data", "where", "cifar10").out, "perdure data fetch cifar10", "uoft-cs/cifar10")
    says(run("data", "where", "omniglot-magi").out, "not here", "brendenlake/omniglot")


def test_verify_has_an_exit_code(home: Path) -> None:
    load("mnist")
    assert run("data", "verify").code == 0
    assert {one["state"] for one in printed("verify", "mnist")["mnist"]} == {"right"}
    x = next((home / "cache" / "decoded").glob("mnist-test-*/x.npy"))
    data = bytearray(x.read_bytes())
    data[-1] ^= 1
    x.write_bytes(data)
    answer = run("data", "verify", "mnist")
    assert answer.code == 1
    (line,) = [line for line in answer.out.splitlines() if "differs" in line]
    says(line, "mnist: differs:", str(x), "remove", "to decode it again")
    assert run("data", "verify", "--format", "json").code == 1
    assert run("data", "verify", "digits", "cifar10").code == 0


def test_fetch_of_what_is_here_needs_no_network(home: Path) -> None:
    answer = run("data", "fetch", "mnist", "digits")
    assert answer.code == 0, answer.err
    says(answer.out, "mnist: here already", "digits: bundled")
    assert [one["source"] for one in printed("fetch", "mnist", "digits")] == ["mirror", "bundled"]


def test_mistakes_are_one_line(home: Path) -> None:
    says(refused("data", "fetch"), "Give a name")
    says(refused("data", "fetch", "mnits"), "did you mean mnist")
    says(refused("data", "where", "../mnist"), "expected one of digits")
    says(refused("data", "verify", "nothing"), "expected one of digits")
    says(refused("data", "fetch", "mnist", "svhn", "--revision", "x"), "one name")
    says(refused("data", "fetch", "omniglot"), "provide", "omniglot/train.parquet")
    says(refused("data", "fetch", "svhn"), "ufldl-stanford/svhn", "check the network")


def test_the_real_packs_are_whole(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folder = mirror()
    monkeypatch.setenv("PERDURE_CACHE", str(home / "cache"))
    monkeypatch.setenv("PERDURE_DATA", str(folder))
    load("omniglot-magi", fetch=False)
    found = printed("verify", "omniglot-magi")["omniglot-magi"]
    assert [one["state"] for one in found] == ["right"] * 6
