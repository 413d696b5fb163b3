"""Loading: digits, real packs against Pillow by hand, and packs that are not as they should be."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest
from PIL import Image

from perdure._extras import install_hint
from perdure.data import DATASETS, load
from perdure.record import InputError

from .cli_helpers import says, start
from .data_helpers import grey, mirror, picture, tree, write_pack, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

# From the description of the packs: train, test, classes.
PACKS = {
    "mnist": (60_000, 10_000, 10),
    "fashion-mnist": (5_000, 1_000, 10),
    "cifar10": (5_000, 1_000, 10),
    "svhn": (5_000, 1_000, 10),
    "omniglot-magi": (320, 80, 20),
    "tiny-imagenet-10": (5_000, 500, 10),
}
FIRST_NAMES = {
    "mnist": "0", "fashion-mnist": "T-shirt/top", "cifar10": "airplane", "svhn": "0",
    "omniglot-magi": "Alphabet_of_the_Magi/character01", "tiny-imagenet-10": "Egyptian cat",
}  # fmt: skip


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a mirror of this test's own; returns the mirror."""
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERDURE_DATA", str(tmp_path / "mirror"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing may be asked of a hub
    (tmp_path / "mirror").mkdir()
    return tmp_path / "mirror"


def test_digits_are_those_of_scikit_learn_split_by_hand() -> None:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    found, theirs = load("digits", fetch=False), load_digits()
    seen: Counter[int] = Counter()
    parts: dict[str, list[tuple[list[list[int]], int]]] = {"train": [], "test": []}
    for image, label in zip(theirs.images, theirs.target, strict=True):
        pixels = [[int(value * 255 / 16 + 0.5) for value in row] for row in image]
        parts["test" if seen[label] % 5 == 4 else "train"].append((pixels, int(label)))
        seen[label] += 1
    for split in ("train", "test"):
        x, y = getattr(found, split)
        assert x[:, 0].tolist() == [pixels for pixels, _ in parts[split]]
        assert y.tolist() == [label for _, label in parts[split]]
    assert (len(found.train.y), len(found.test.y)) == (1442, 355)
    assert found.revision is not None
    assert found.revision.startswith("scikit-learn ")
    assert found.source == "bundled"
    assert not found.train.x.flags.writeable


def test_normalisation_of_digits_is_that_of_its_training_images() -> None:
    x = load("digits").train.x / 255
    assert DATASETS["digits"].mean == pytest.approx([x.mean()], abs=5e-5)
    assert DATASETS["digits"].std == pytest.approx([x.std()], abs=5e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PACKS)
def test_a_real_pack_is_what_pillow_reads(
    name: str, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mirror()
    monkeypatch.setenv("PERDURE_DATA", str(folder))
    monkeypatch.setenv("PERDURE_CACHE", str(shared_cache))
    found = load(name, fetch=False)
    train, test, classes = PACKS[name]
    assert (len(found.train.y), len(found.test.y), len(found.classes)) == (train, test, classes)
    assert found.classes[0] == FIRST_NAMES[name]
    assert found.source == "mirror"
    for split, (x, y) in {"train": found.train, "test": found.test}.items():
        assert x.shape == (len(y), *DATASETS[name].shape)
        assert [str(x.dtype), str(y.dtype)] == ["uint8", "int64"]
        if name != "mnist":
            assert np.bincount(y).tolist() == [len(y) // classes] * classes
        path = folder / name / f"{split}.parquet"
        with duckdb.connect() as connection:
            rows = connection.execute(f"SELECT image.bytes, label FROM '{path}'").fetchall()
        assert y.tolist() == [label for _, label in rows]
        for k in np.random.default_rng(7).integers(0, len(y), 60):
            image = Image.open(io.BytesIO(rows[k][0]))
            pixels = np.asarray(image.convert("L" if x.shape[1] == 1 else "RGB"))
            assert np.array_equal(x[k], np.atleast_3d(pixels).transpose(2, 0, 1))


@pytest.mark.slow
def test_real_packs_hold_what_their_description_says(
    shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mirror()
    monkeypatch.setenv("PERDURE_DATA", str(folder))
    monkeypatch.setenv("PERDURE_CACHE", str(shared_cache))
    mnist = load("mnist", fetch=False)
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(mnist.train.y).tolist() == published
    assert mnist.notes == ()
    x = mnist.train.x / 255
    assert (round(x.mean(), 4), round(x.std(), 4)) == (0.1307, 0.3081)
    tiny = load("tiny-imagenet-10", fetch=False)
    with duckdb.connect() as connection:
        rows = [
            data
            for split in ("train", "test")
            for (data,) in connection.execute(
                f"SELECT image.bytes FROM '{folder / 'tiny-imagenet-10' / split}.parquet'"
            ).fetchall()
        ]
    modes = [Image.open(io.BytesIO(data)).mode for data in rows]
    assert Counter(modes)["L"] == 77
    both = np.concatenate([tiny.train.x, tiny.test.x])
    for k in [k for k, mode in enumerate(modes) if mode == "L"]:
        assert np.array_equal(both[k, 0], both[k, 2])
    fashion = load("fashion-mnist", fetch=False)
    expected = "fashion-mnist: 5,000 of 60,000 training images, 1,000 of 10,000 test images"
    assert fashion.notes == (expected,)


def test_magi_has_black_ink_on_white(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DATA", str(mirror()))
    monkeypatch.setenv("PERDURE_CACHE", str(shared_cache))
    x = load("omniglot-magi", fetch=False).train.x
    assert set(np.unique(x)) == {0, 255}
    assert (x == 255).mean() > 0.8


def test_the_cache_comes_before_the_mirror(here: Path, tmp_path: Path) -> None:
    write_pack(here / "mnist", seed=1)
    assert load("mnist").source == "mirror"
    ours = write_pack(tmp_path / "cache" / "mnist", seed=5)
    found = load("mnist")
    assert found.source == "cache"
    assert np.array_equal(found.train.x[:, 0], ours["train"])


def test_shards_are_read_in_order(here: Path) -> None:
    x = grey(12)
    for k in range(3):
        part = [picture(one) for one in x[4 * k : 4 * k + 4]]
        write_parquet(here / "mnist" / f"train-0000{k}-of-00003.parquet", part, [k] * 4)
    write_parquet(here / "mnist" / "test.parquet", [picture(x[0])], [0])
    found = load("mnist", fetch=False)
    assert np.array_equal(found.train.x[:, 0], x)
    assert found.train.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(found.sha256) == 4
    (here / "mnist" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(InputError, match=r"the shards of train are .*without gaps"):
        load("mnist", fetch=False)


def test_a_split_that_is_missing_is_named(here: Path) -> None:
    write_pack(here / "mnist")
    (here / "mnist" / "test.parquet").unlink()
    with pytest.raises(InputError, match="has train but not test"):
        load("mnist", fetch=False)


def test_columns_of_the_hub_are_taken_too(here: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    files = [picture(one) for one in x]
    names = [f"class {k}" for k in range(100)]
    for split in ("train", "test"):
        path = here / "cifar100" / f"{split}.parquet"
        write_parquet(path, files, [3, 1, 4, 99], names=names, image="img", label="fine_label")
    found = load("cifar100", fetch=False)
    assert np.array_equal(found.test.x, x.transpose(0, 3, 1, 2))
    assert found.test.y.tolist() == [3, 1, 4, 99]
    assert found.classes == tuple(names)


def test_a_pack_without_class_names_is_numbered(here: Path) -> None:
    for split in ("train", "test"):
        write_parquet(here / "mnist" / f"{split}.parquet", [picture(grey(1)[0])], [9], names=None)
    assert load("mnist", fetch=False).classes == tuple("0123456789")


def test_other_sizes_are_resized_smoothly(here: Path) -> None:
    # A fine checkerboard: smoothing gives grey; picking single pixels would give black or white.
    board = (np.indices((56, 56)).sum(axis=0) % 2 * 255).astype(np.uint8)
    for split in ("train", "test"):
        write_parquet(here / "mnist" / f"{split}.parquet", [picture(board)], [0])
    x = load("mnist", fetch=False).train.x
    assert x.shape == (1, 1, 28, 28)
    assert abs(x[0, 0, 4:-4, 4:-4].astype(int) - 127).max() <= 16


def test_domains_are_cut_out_of_the_centre(here: Path) -> None:
    wide = np.zeros((192, 576, 3), dtype=np.uint8)
    wide[:, 192:384] = 255  # the middle third is white: all that may be left
    for split in ("train", "test"):
        path = here / "mini-domainnet-real" / f"{split}.parquet"
        write_parquet(path, [picture(wide), picture(wide.transpose(1, 0, 2))], [0, 125], names=None)
    x = load("mini-domainnet-real", fetch=False).train.x
    assert x.shape == (2, 3, 96, 96)
    assert x[:, :, 4:-4, 4:-4].min() == 255


def test_grey_jpegs_among_coloured_ones(here: Path) -> None:
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    files = [picture(colour, "JPEG"), picture(grey(1, size=(64, 64))[0], "JPEG")]
    for split in ("train", "test"):
        path = here / "tiny-imagenet" / f"{split}.parquet"
        write_parquet(path, files, [0, 1], names=[f"n{k}" for k in range(200)])
    x = load("tiny-imagenet", fetch=False).train.x
    by_hand = np.asarray(Image.open(io.BytesIO(files[1])))
    assert all(np.array_equal(x[1, channel], by_hand) for channel in range(3))


def test_ten_classes_are_cut_from_the_whole(here: Path) -> None:
    names = [f"n{k:08}" for k in range(190)]
    wanted = ["n02124075", "n04067472", "n04540053", "n04099969", "n07749582", "n01641577",
              "n02802426", "n09246464", "n07920052", "n03970156"]  # fmt: skip
    names += wanted[::-1]  # the other way round: the order is ours, not the whole's
    x = np.random.default_rng(0).integers(0, 256, (40, 64, 64, 3), dtype=np.uint8)
    labels = [(k * 7 + 160) % 200 for k in range(40)]
    for split in ("train", "test"):
        path = here / "tiny-imagenet" / f"{split}.parquet"
        write_parquet(path, [picture(one) for one in x], labels, names=names)
    found = load("tiny-imagenet-10", fetch=False)
    kept = [k for k, label in enumerate(labels) if names[label] in wanted]
    assert kept
    assert found.train.y.tolist() == [wanted.index(names[labels[k]]) for k in kept]
    assert np.array_equal(found.train.x, x[kept].transpose(0, 3, 1, 2))
    assert found.classes[0] == "Egyptian cat"
    assert found.classes[-1] == "plunger"
    assert "a subset of tiny-imagenet" in found.notes[0]


def test_a_whole_that_names_its_classes_otherwise_is_not_cut(here: Path) -> None:
    for split in ("train", "test"):
        path = here / "tiny-imagenet" / f"{split}.parquet"
        pixels = picture(np.zeros((64, 64, 3), dtype=np.uint8))
        write_parquet(path, [pixels], [0], names=["cat"] * 200)
    with pytest.raises(InputError, match="tiny-imagenet has no class 'n02124075'"):
        load("tiny-imagenet-10", fetch=False)


@pytest.mark.parametrize("broken", ["cut", "empty", "text", "null"])
def test_a_broken_image_is_named_by_file_and_row(
    here: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.data._parquet.BATCH_SIZE", 4)
    write_pack(here / "mnist")
    files: list[bytes | None] = [picture(one) for one in grey(12)]
    whole = files[9]
    assert whole is not None
    files[9] = {"cut": whole[:-60], "empty": b"", "text": b"no image", "null": None}[broken]
    path = write_parquet(here / "mnist" / "train.parquet", files, [0] * 12)
    with pytest.raises(InputError) as refused:
        load("mnist", fetch=False)
    says(str(refused.value), str(path), "row 9:", "expected PNG or JPEG")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("label", [-1, 10, None])
def test_a_label_out_of_range_is_named_by_file_and_row(here: Path, label: int | None) -> None:
    write_pack(here / "mnist")
    files = [picture(one) for one in grey(5)]
    path = write_parquet(here / "mnist" / "test.parquet", files, [0, 1, 2, label, 3])
    with pytest.raises(InputError) as refused:
        load("mnist", fetch=False)
    says(str(refused.value), str(path), "row 3", f"label is {label}", "0 to 9")


def test_files_that_are_no_packs(here: Path) -> None:
    write_pack(here / "mnist")
    path = here / "mnist" / "train.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="cannot be read as a Parquet file"):
        load("mnist", fetch=False)
    write_parquet(path, [], [])
    with pytest.raises(InputError, match="has no rows"):
        load("mnist", fetch=False)
    write_parquet(path, [picture(grey(1)[0])], [0], label="kind")
    with pytest.raises(InputError, match="columns are image, kind, expected label"):
        load("mnist", fetch=False)
    write_parquet(path, [picture(grey(1)[0])], [0], names=list("abcdefghij"))
    with pytest.raises(InputError, match="train and test have different class names"):
        load("mnist", fetch=False)


def test_a_folder_whose_name_looks_like_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a[b]*?'\""  # as a pattern, it would mean the folder beside it
    write_pack(tmp_path / "abc'd'\"" / "mnist", seed=5)
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PERDURE_DATA", str(odd))
    images = write_pack(tmp_path / "plain" / "mnist")
    (tmp_path / "plain").rename(odd)
    assert np.array_equal(load("mnist", fetch=False).train.x[:, 0], images["train"])


@pytest.mark.parametrize("name", ["../mnist", "/etc", "mnist/../mnist", "", "..", "mnist\x00"])
def test_names_from_outside_lead_nowhere(here: Path, name: str) -> None:
    write_pack(here / "mnist")
    before = tree(here.parent)
    with pytest.raises(InputError, match="expected one of digits, mnist"):
        load(name)
    assert tree(here.parent) == before


def test_unknown_names_get_near_ones(here: Path) -> None:
    with pytest.raises(InputError, match="did you mean fashion-mnist"):
        load("fashon-mnist")


def test_what_is_nowhere_says_how_to_get_it(here: Path) -> None:
    with pytest.raises(InputError) as refused:
        load("cifar100", fetch=False)
    says(
        str(refused.value), "perdure data fetch cifar100", "PERDURE_DATA", "cifar100/train.parquet"
    )
    for name in ("omniglot", "mini-domainnet", "synthetic-speech-commands"):
        with pytest.raises(InputError) as refused:
            load(name)
        says(str(refused.value), "provide", f"{name}/train.parquet", "PERDURE_DATA")
        assert "\n" not in str(refused.value)
    assert not here.parent.joinpath("cache").exists()


def test_a_mirror_that_is_not_there_is_not_passed_over(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_DATA", str(here / "typo"))
    with pytest.raises(InputError, match=r"PERDURE_DATA is '.*typo', expected a folder"):
        load("mnist")
    monkeypatch.setenv("PERDURE_DATA", "/" + "x" * 300)
    with pytest.raises(InputError, match=r"cannot be read \(file name too long\)"):
        load("mnist")


@pytest.mark.parametrize("progress", [True, False, None])
def test_a_bar_is_shown_when_asked_for(
    here: Path, progress: bool | None,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("perdure.data._decoding.DELAY_SECONDS", -1.0)
    write_pack(here / "mnist")
    load("mnist", progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("decoding mnist train" in err and "30/30" in err) == (progress is True)
    assert progress or err == ""


def test_every_dataset_is_described_in_full() -> None:
    for name, info in DATASETS.items():
        channels = info.shape[0]
        assert len(info.mean) == len(info.std) == channels, name
        ways = (name == "digits", info.repository, info.provide, info.subset)
        assert any(ways), f"{name}: no way to get it"
        assert (info.repository is None) == (info.files is None), name
        assert info.subset is None or info.subset.of in DATASETS, name


@pytest.mark.parametrize(
    ("gone", "name", "said"),
    [
        ("sklearn", "digits", "scikit-learn"),
        ("duckdb", "mnist", "duckdb"),
        ("PIL", "mnist", "Pillow"),
    ],
)
def test_without_the_extra_one_line_says_so(
    here: Path, gone: str, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pack(here / "mnist")
    monkeypatch.setitem(sys.modules, gone, None)
    with pytest.raises(InputError) as refused:
        load(name)
    assert str(refused.value) == f"reading datasets needs {said}: {install_hint('train')}"


def test_importing_the_room_loads_nothing_heavy() -> None:
    script = (
        "import sys, perdure.data, perdure.cli\n"
        "print([name for name in ('torch', 'duckdb', 'PIL', 'sklearn', 'huggingface_hub', 'rich')"
        " if name in sys.modules])"
    )
    assert start("-c", script, command=[sys.executable]).out == "[]\n"
