"""Files that are no checkpoints of the run at hand are refused in one line."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from perdure.record import InputError
from perdure.training import load_checkpoint, save_checkpoint, train
from perdure.training.checkpoint import _digest

from .strategy_helpers import ALL, GUESSES, NORMED, blobs, made

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.strategies import Strategy


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Any]:
    scenario = blobs()
    strategy, plan = made("replay", scenario, model=NORMED)
    for place in train(scenario, strategy, plan):
        if place.step == 13:
            save_checkpoint(tmp_path, strategy, place)
            break
    return tmp_path / "state.safetensors", lambda: made("replay", scenario, model=NORMED)[0]


def refused(path: Path, strategy: Strategy) -> str:
    """Return what is said of a file that is refused: one line that names it."""
    with pytest.raises(InputError) as caught:
        load_checkpoint(path.parent, strategy)
    said = str(caught.value)
    assert "\n" not in said
    assert str(path) in said
    return said


def test_truncated_at_any_length(saved: tuple[Path, Any]) -> None:
    path, fresh = saved
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    for length in (0, 1, 7, 8, 9, size // 2, size, size + 8, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path, fresh())


def test_a_header_with_flipped_bits(saved: tuple[Path, Any]) -> None:
    """Whatever one byte turns into: read as it is, or refused in one line."""
    path, fresh = saved
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    rng = np.random.default_rng(0)
    strategy = fresh()
    said: list[str] = []
    for _ in range(400):
        at, bit = int(rng.integers(0, size + 8)), int(rng.integers(0, 7))
        broken = bytearray(whole)
        broken[at] ^= 1 << bit
        path.write_bytes(broken)
        try:
            load_checkpoint(path.parent, strategy)
        except InputError as error:
            said.append(str(error))
    assert len(said) > 100
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80\x04K\x01.", b"PK\x03\x04" + bytes(60), b"{}", bytes(4096), b"\xff" * 64],
)
def test_foreign_bytes(content: bytes, saved: tuple[Path, Any]) -> None:
    path, fresh = saved
    path.write_bytes(content)
    refused(path, fresh())


PARTS = ("kind", "position", "model", "optimizer", "own", "stopping", "random")
STATES: list[Any] = [
    None, 3, "text", [], {}, {"dict": []}, {"dict": 4}, {"tensor": "99"}, {"generator": {}},
    {"nothing": 1}, {"a": 1, "b": 2}, {"dict": [["kind", "Replay with SGD"]]},
    {"dict": [["kind", "Replay with SGD"], ["own", {"dict": []}]]},
    {"dict": [[part, 5] for part in PARTS]},
    {"dict": [["kind", "Replay with SGD"], *([part, 5] for part in PARTS[1:])]},
]  # fmt: skip


def signed(path: Path, tensors: dict[str, torch.Tensor], state: Any) -> None:
    """Write a checkpoint whose checksum is right."""
    text = json.dumps(state)
    save_file(tensors, path, metadata={"state": text, "sha256": _digest(text, tensors)})


@pytest.mark.parametrize("state", STATES)
def test_foreign_safetensors(state: Any, saved: tuple[Path, Any]) -> None:
    path, fresh = saved
    signed(path, {"weight": torch.ones(3)}, state)
    refused(path, fresh())


@pytest.mark.parametrize("missing", PARTS)
def test_a_part_is_missing(missing: str, saved: tuple[Path, Any]) -> None:
    path, fresh = saved
    with safe_open(path, framework="pt") as file:
        state = json.loads(file.metadata()["state"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    state["dict"] = [pair for pair in state["dict"] if pair[0] != missing]
    signed(path, tensors, state)
    refused(path, fresh())


def test_no_metadata_at_all(saved: tuple[Path, Any]) -> None:
    path, fresh = saved
    save_file({"weight": torch.ones(3)}, path)
    refused(path, fresh())


def test_no_file(tmp_path: Path) -> None:
    strategy, _ = made("naive", blobs())
    assert "no such checkpoint" in refused(tmp_path / "state.safetensors", strategy)


@pytest.mark.parametrize("name", ALL)
def test_of_another_strategy(name: str, saved: tuple[Path, Any]) -> None:
    path, _ = saved
    strategy, _ = made(name, blobs(), model=NORMED)
    if name == "replay":
        assert load_checkpoint(path.parent, strategy).step == 13
    else:
        assert "Replay" in refused(path, strategy)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "other",
    [
        {"model": "mlp"},
        {"settings": {"hidden": "17"}},
        {"optimizer": "adam"},
        {"settings": {"hidden": "16x16"}, "model": "mlp"},
    ],
)
def test_of_another_network_or_optimizer(name: str, other: dict[str, Any], tmp_path: Path) -> None:
    scenario = blobs()
    strategy, plan = made(name, scenario, model=NORMED)
    save_checkpoint(tmp_path, strategy, next(train(scenario, strategy, plan)))
    fresh, _ = made(name, scenario, **{"model": NORMED} | other)
    if name in GUESSES and other.get("settings"):
        pytest.skip("its network is never used")
    refused(tmp_path / "state.safetensors", fresh)


def test_of_another_scenario(tmp_path: Path) -> None:
    for name in ALL:
        strategy, plan = made(name, blobs())
        save_checkpoint(tmp_path, strategy, next(train(blobs(), strategy, plan)))
        fresh, _ = made(name, blobs(tasks=2, classes=4))
        refused(tmp_path / "state.safetensors", fresh)
