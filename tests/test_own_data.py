"""A user's own data in every form: what it becomes, what is said, and what is refused."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import perdure
from perdure.api.recorded_runs import note_own_data
from perdure.data.own import OwnData, ReadOptions, read_own_data
from perdure.record import InputError
from perdure.report import figures
from perdure.scenarios import make_scenario
from perdure.studies import read_study
from perdure.training import build_learner, load_scenario, make_config, setup, train
from perdure.training import run as train_run

from .cli_helpers import refused, run, says
from .own_data_helpers import CLASSES, pictures, table, write_images, write_npz, write_parquet

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DOCS = Path(__file__).parents[1] / "docs" / "runs.md"
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def read(path: Path, **options: Any) -> OwnData:
    return read_own_data(path, ReadOptions(**options))


def rows_of(data: OwnData) -> set[bytes]:
    """Return every example of both parts, with its class, as bytes."""
    found = set()
    for part in (data.dataset.train, data.dataset.test):
        found |= {
            x.tobytes() + data.dataset.classes[y].encode()
            for x, y in zip(part.x, part.y, strict=True)
        }
    return found


def expected_rows(x: NDArray[Any], names: list[str]) -> set[bytes]:
    return {row.tobytes() + name.encode() for row, name in zip(x, names, strict=True)}


def notes(data: OwnData) -> str:
    return " | ".join(data.dataset.notes)


# --- forms ----------------------------------------------------------------------------------------


def test_a_folder_per_class_has_every_image_once(tmp_path: Path) -> None:
    data = read(write_images(tmp_path / "images"))
    x, y = pictures()
    first = expected_rows(x.transpose(0, 3, 1, 2), [CLASSES[k] for k in y])
    assert rows_of(data) == first
    assert data.dataset.classes == CLASSES
    assert [len(data.dataset.train.y), len(data.dataset.test.y)] == [32, 8]
    assert np.bincount(data.dataset.test.y).tolist() == [2, 2, 2, 2]
    says(notes(data), "20% of each class", "fixed seed", "8 of 40")
    mean, std = data.dataset.normalization or ((), ())
    pixels = data.dataset.train.x.astype(float) / 255
    np.testing.assert_allclose(mean, pixels.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(std, pixels.std(axis=(0, 2, 3)))


def test_train_and_test_folders_are_taken_as_they_are(tmp_path: Path) -> None:
    write_images(tmp_path / "images" / "Train", per_class=3)
    write_images(tmp_path / "images" / "val", per_class=2)
    data = read(tmp_path / "images")
    assert [len(data.dataset.train.y), len(data.dataset.test.y)] == [12, 8]
    says(notes(data), "the validation part is evaluated")


def test_images_of_16_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images")
    deep = np.arange(144, dtype=np.uint16).reshape(12, 12) * 400
    Image.fromarray(deep).save(folder / "ant" / "000.png")
    data = read_own_data(folder)
    says(notes(data), "1 of 40 images have 16 bits per pixel: divided by 256")
    both = np.concatenate([data.dataset.train.x, data.dataset.test.x])
    assert any((image == deep >> 8).all() for image in both)


def test_a_dry_run_says_what_was_understood(tmp_path: Path) -> None:
    answer = run("run", write_images(tmp_path / "images"), "naive", "--seeds", "1", "--dry-run")
    says(
        answer.err, "images: 32 training examples, 4 classes, 2 tasks; --num-tasks", "no test part"
    )


def test_images_of_several_sizes_and_colours_become_alike(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images")
    Image.new("L", (30, 20), 128).save(folder / "ant" / "grey.jpg")
    (folder / "ant" / "notes.txt").write_text("not an image")
    data = read(folder)
    assert data.dataset.train.x.shape[1:] == (3, 64, 64)
    says(notes(data), "2 sizes, most often 12x12", "64x64", "`image_size=`", "1 file left out")
    assert read(folder, image_size=20).dataset.train.x.shape[1:] == (3, 20, 20)


def test_grey_images_have_one_channel_and_numbered_folders_their_order(tmp_path: Path) -> None:
    for name in ("2", "10", "1"):
        (tmp_path / "n" / name).mkdir(parents=True)
        for k in range(3):
            Image.new("L", (8, 8), 20 * k).save(tmp_path / "n" / name / f"{k}.png")
    data = read(tmp_path / "n")
    assert data.dataset.classes == ("1", "2", "10")
    assert data.dataset.train.x.shape[1:] == (1, 8, 8)


SPELLINGS = [
    ("x", "y"), ("X", "Y"), ("data", "target"), ("images", "labels"), ("arr_0", "arr_1"),
    ("features", "label"),
]  # fmt: skip


@pytest.mark.parametrize(("x_name", "y_name"), SPELLINGS)
def test_common_names_in_an_npz_file_are_understood(
    tmp_path: Path, x_name: str, y_name: str
) -> None:
    x, y = table()
    data = read(write_npz(tmp_path / "a.npz", **{x_name: x, y_name: y}))
    assert rows_of(data) == expected_rows(x, [str(k) for k in y])
    says(notes(data), "(5,): features", "no test part")


@pytest.mark.parametrize("name", ["{}_train {}_test", "train_{} test_{}", "{}Train {}Test"])
def test_training_and_test_arrays_are_understood(tmp_path: Path, name: str) -> None:
    x, y = table()
    train, test = name.split()
    arrays = {
        train.format("x"): x[:40], train.format("y"): y[:40],
        test.format("x"): x[40:], test.format("y"): y[40:], "mean": np.zeros(3),
    }  # fmt: skip
    data = read(write_npz(tmp_path / "a.npz", **arrays))
    np.testing.assert_array_equal(data.dataset.train.x, x[:40])
    np.testing.assert_array_equal(data.dataset.test.y, y[40:])
    says(notes(data), "not used: mean")


ARRAYS: dict[str, tuple[Callable[[NDArray[Any]], NDArray[Any]], tuple[int, ...], str, str]] = {
    "channels last": (lambda x: x, (3, 12, 12), "uint8", "3 channels (the last axis)"),
    "channels first": (
        lambda x: x.transpose(0, 3, 1, 2), (3, 12, 12), "uint8", "(the first axis)",
    ),
    "grey": (lambda x: x[..., 0], (1, 12, 12), "uint8", "grey images of 12x12"),
    "float images": (lambda x: x / 255, (3, 12, 12), "float32", "images of 12x12"),
    "wide integers": (lambda x: x.astype(np.int64), (3, 12, 12), "uint8", "images of 12x12"),
    "flat bytes": (lambda x: x[:, :2, :, 0].reshape(40, -1), (24,), "float32", "features"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRAYS)
def test_the_axes_of_arrays_are_understood_and_said(tmp_path: Path, case: str) -> None:
    change, shape, dtype, note = ARRAYS[case]
    x, y = pictures()
    data = read(write_npz(tmp_path / "a.npz", x=change(x), y=y))
    assert data.dataset.train.x.shape[1:] == shape
    assert data.dataset.train.x.dtype == dtype
    says(notes(data), note)


def test_labels_may_be_text_one_hot_columns_or_any_numbers(tmp_path: Path) -> None:
    x, y = table()
    for k, (labels, classes) in enumerate(
        [
            (np.array(CLASSES)[y], CLASSES),
            (np.array([b"p", b"q", b"r", b"s"])[y], ("p", "q", "r", "s")),
            (np.eye(4)[y], ("0", "1", "2", "3")),
            (y[:, None] * 10.0 - 7, ("-7", "3", "13", "23")),
        ]
    ):
        data = read(write_npz(tmp_path / f"{k}.npz", x=x, y=labels))
        assert data.dataset.classes == classes
        assert rows_of(data) == expected_rows(x, [classes[label] for label in y])
    says(notes(data), "4 labels -7, 3, 13, 23 are outputs 0 to 3")


def test_tokens_are_told_from_features(tmp_path: Path) -> None:
    x, y = np.arange(360).reshape(60, 6) % 50, table()[1]
    named = read(write_npz(tmp_path / "a.npz", input_ids=x, labels=y))
    assert (named.kind, named.dataset.train.x.dtype.name) == ("tokens", "int64")
    plain = write_npz(tmp_path / "b.npz", x=x, y=y)
    with pytest.raises(InputError, match="features or tokens"):
        read(plain)
    assert read(plain, input="features").kind == "features"
    config = make_config(str(tmp_path / "a.npz"), "naive")
    assert (config.model, config.model_options["vocabulary"]) == ("embedding-bag", 50)


def test_parquet_of_features_images_and_lists(tmp_path: Path) -> None:
    numbers = (
        "SELECT i AS id, i % 3 AS a, i * 0.5 AS b, 'c' || (i % 4) AS label FROM range(40) t(i)"
    )
    data = read(write_parquet(tmp_path / "f.parquet", numbers))
    assert data.dataset.classes == ("c0", "c1", "c2", "c3")
    expected = np.array([[i % 3, i * 0.5] for i in range(40)], dtype=np.float32)
    assert rows_of(data) == expected_rows(expected, [f"c{i % 4}" for i in range(40)])
    says(notes(data), "not used: id")
    lists = "SELECT [i, i + 1, 7] AS input_ids, i % 2 AS label, CASE WHEN i < 30 THEN 'train' ELSE "
    tokens = read(
        write_parquet(tmp_path / "t.parquet", lists + "'test' END AS split FROM range(40) t(i)")
    )
    assert (tokens.kind, len(tokens.dataset.test.y)) == ("tokens", 10)
    folder = write_images(tmp_path / "images")
    files = (
        f"SELECT content AS image, parse_path(filename)[-2] AS label FROM read_blob('{folder}/*/*')"
    )
    images = read(write_parquet(tmp_path / "i.parquet", files))
    assert rows_of(images) == rows_of(read(folder))


# --- tasks ----------------------------------------------------------------------------------------


def test_classes_are_divided_as_evenly_as_possible(tmp_path: Path) -> None:
    x = table(140)[0]
    path = str(write_npz(tmp_path / "a.npz", x=x, y=np.arange(140) % 7))
    assert [len(task.classes) for task in make_scenario(path).tasks] == [3, 2, 2]
    five = make_scenario(path, tasks=5, order=[6, 5, 4, 3, 2, 1, 0])
    assert [task.name for task in five.tasks] == ["6, 5", "4, 3", "2", "1", "0"]
    assert five.outputs == 7
    for task in five.tasks:
        assert set(five.train.y[task.train]) == set(five.test.y[task.test]) == set(task.classes)


def test_stated_tasks_are_kept_by_class_or_by_domain(tmp_path: Path) -> None:
    x, y = table(80)
    by_class = str(write_npz(tmp_path / "c.npz", x=x, y=y, task=y // 2))
    scenario = make_scenario(by_class)
    assert (scenario.setting, [task.name for task in scenario.tasks]) == (
        "class",
        ["task 0", "task 1"],
    )
    places = np.array(["rome", "oslo"])[np.arange(80) // 40]
    domains = make_scenario(str(write_npz(tmp_path / "d.npz", x=x, y=y, task=places)))
    assert (domains.setting, domains.outputs) == ("domain", 4)
    assert [task.name for task in domains.tasks] == ["oslo", "rome"]
    assert "not split by class" in refused(
        "run", by_class, "naive", "--num-tasks", "2", "--dry-run"
    )


def test_every_stated_task_gets_test_examples_of_its_classes(tmp_path: Path) -> None:
    x, y = table(80)
    tasks = np.where(np.arange(80) < 72, 0.0, 1.0)  # the second task has two examples per class
    scenario = make_scenario(str(write_npz(tmp_path / "t.npz", x=x, y=y, task=tasks)))
    assert [task.name for task in scenario.tasks] == ["task 0", "task 1"]
    small = scenario.tasks[1]
    assert sorted(scenario.train.y[small.train]) == sorted(scenario.test.y[small.test])
    says(notes(read_own_data(tmp_path / "t.npz")), "of each class of each task", "(20 of 80")
    alone = write_npz(tmp_path / "a.npz", x=x, y=y, task=np.where(np.arange(80) < 76, 0, 1))
    says(refused("run", alone, "naive", "--dry-run"), "task '1' has one example", "at least two")


FUNCTION = """
import numpy as np
from perdure.data import Dataset, Split
from perdure.scenarios import split

def data():
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    y = np.arange(40) % 4
    return Dataset("mine", Split(x, y), Split(x, y), classes=("a", "b", "c", "d"))

def stream():
    return split(data(), 2, setting="task")

def wrong():
    return 7

def fails():
    raise KeyError("no such file")
"""


def test_a_function_returns_a_scenario_or_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_stream_module.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(tmp_path)
    fixed = make_config("own_stream_module:stream", "naive", iterations=1)
    assert (fixed.setting, fixed.scenario, fixed.model) == ("task", "split-mine", "mlp")
    assert [task.name for task in load_scenario(fixed).tasks] == ["a, b", "c, d"]
    (note,) = note_own_data(fixed)
    says(note, "split-mine: ", "training examples, 2 tasks")
    assert "0 classes" not in note
    assert (
        len(load_scenario(make_config("own_stream_module:data", "naive", num_tasks=4)).tasks) == 4
    )
    says(refused("run", "own_stream_module:wrong", "naive", "--dry-run"), "returns int", "Scenario")
    says(refused("run", "own_stream_module:fails", "naive", "--dry-run"), "KeyError", "failed")
    says(refused("run", "own_stream_module:none", "naive", "--dry-run"), "has no 'none'")
    says(
        refused("run", "own_stream_module:stream", "naive", "--tasks", "2", "--dry-run"),
        "num_tasks",
    )


# --- mistakes -------------------------------------------------------------------------------------


def remove(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        shutil.rmtree(folder / name)


def spoil_class(folder: Path) -> None:
    shutil.rmtree(folder / "ant")
    (folder / "ant").mkdir()


FOLDERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "an empty class": (spoil_class, ["ant", "has no images"]),
    "a damaged image": (
        lambda f: (f / "bee" / "001.png").write_bytes((f / "bee" / "001.png").read_bytes()[:80]),
        ["bee", "001.png", "repair or remove it"],
    ),
    "text as an image": (
        lambda f: (f / "bee" / "x.jpg").write_text("hi"), ["x.jpg", "PNG, JPEG", "(not an image)"],
    ),
    "one class": (
        lambda f: remove(f, CLASSES[1:]), ["one class (ant)"],
    ),
    "nothing": (lambda f: remove(f, CLASSES), ["no folders"]),
    "train next to classes": (lambda f: (f / "train").mkdir(), ["next to train/"]),
    "a link to nothing": (
        lambda f: (f / "bee" / "x.png").symlink_to("/nowhere/x.png"), ["x.png", "cannot be read"],
    ),
    "a pipe": (lambda f: __import__("os").mkfifo(f / "bee" / "x.png"), ["x.png", "a pipe"]),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: Path, case: str) -> None:
    spoil, words = FOLDERS[case]
    folder = write_images(tmp_path / "images")
    spoil(folder)
    says(refused("run", folder, "naive", "--dry-run"), *words)


def test_every_class_has_test_images_before_anything_is_trained(tmp_path: Path) -> None:
    write_images(tmp_path / "images" / "train", per_class=3)
    shutil.rmtree(write_images(tmp_path / "images" / "test", per_class=2) / "bee")
    answer = refused("run", tmp_path / "images", "naive", "--store", tmp_path / "runs")
    says(answer, "the test part has no examples of class 'bee'", "remove the class")
    assert not (tmp_path / "runs").exists()


def test_class_names_are_recorded_and_drawn(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images", per_class=5)
    config = make_config(str(folder), "random", num_tasks=2, task_order=[1, 0], iterations=1)
    train_run(config, tmp_path / "run")
    record = perdure.open_run(tmp_path / "run")
    assert record.metadata.class_names == {0: "cat", 1: "dog", 2: "ant", 3: "bee"}
    assert record.stream is not None
    assert list(record.stream.names) == ["cat, dog", "ant, bee"]
    figure = figures.confusion({"mine": [record]})
    for names in (figure.axes[0].get_xticklabels(), figure.axes[0].get_yticklabels()):
        assert [label.get_text() for label in names][:4] == ["cat", "dog", "ant", "bee"]
    assert "numbered" not in figures.get_caption(figure)
    points = figures.classes({"mine": [record]}).axes[1]
    assert [label.get_text() for label in points.get_xticklabels()] == ["cat", "dog", "ant", "bee"]
    shared = load_scenario(make_config(str(folder), "naive", num_tasks=2, setting="domain"))
    assert shared.class_names == ()  # an output stands for ant and for cat


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images")
    (folder / "zebra").symlink_to(folder)
    (folder / "ant" / "loop").symlink_to(folder)
    data = read(folder)
    assert data.dataset.classes == CLASSES
    says(notes(data), "not followed: zebra")


X, Y = table()
WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unequal lengths": ({"x": X, "y": Y[:-1]}, ["(60, 5)", "(59,)", "one row of each"]),
    "no labels": ({"x": X}, ["no y", "x_train"]),
    "no examples": ({"y": Y}, ["no x"]),
    "nothing known": ({"weights": X}, ["weights", "expected x and y"]),
    "two candidates": ({"x": X, "data": X, "y": Y}, ["x and data"]),
    "both kinds": ({"x": X, "y": Y, "x_test": X, "y_test": Y}, ["both one part and several"]),
    "one class": ({"x": X, "y": Y * 0}, ["one class (0)"]),
    "not finite": ({"x": np.where(X > 130, np.nan, X), "y": Y}, ["not finite"]),
    "fractions": ({"x": X, "y": Y + 0.5}, ["a label is 0.5"]),
    "numbers to predict": ({"x": X, "y": np.arange(60)}, ["60 different labels"]),
    "a single example": ({"x": X, "y": np.where(np.arange(60) == 7, 9, Y)}, ["'9' has one"]),
    "two labels each": ({"x": X, "y": np.stack([Y, Y], 1)}, ["labels have shape (60, 2)"]),
    "new class in test": (
        {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y + 1}, ["class '4'", "training part"],
    ),
    "other shape in test": (
        {"x_train": X, "y_train": Y, "x_test": X[:, :3], "y_test": Y}, ["(5,)", "(3,)"],
    ),
    "one number each": ({"x": X[:, 0], "y": Y}, ["shape ()", "(N, F)"]),
    "text": ({"x": X.astype(str), "y": Y}, ["examples are <U", "expected numbers"]),
    "objects": ({"x": X, "y": np.array(list("ab") * 30, dtype=object)}, ["dtype=str"]),
    "axes": ({"x": np.zeros((60, 3, 9, 3)), "y": Y}, ["--channels first or --channels last"]),
    "no channels": ({"x": np.zeros((60, 9, 9, 9)), "y": Y}, ["--channels first or --channels"]),
    "integers": ({"x": X.astype(int), "y": Y}, ["--input features or --input tokens"]),
    "no task": ({"x": X, "y": Y, "task": np.where(Y > 2, np.nan, Y)}, ["a task is nan"]),
    "tasks by two": ({"x": X, "y": Y, "task": np.stack([Y, Y], 1)}, ["tasks have shape (60, 2)"]),
    "empty": ({"x": X[:0], "y": Y[:0]}, ["no examples"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_arrays_that_cannot_be_used_are_one_line(tmp_path: Path, case: str) -> None:
    arrays, words = WRONG[case]
    path = write_npz(tmp_path / "a.npz", **arrays)
    line = refused("run", path, "naive", "--dry-run")
    says(line, "a.npz", *words)


def test_a_header_that_promises_too_much_costs_no_memory(tmp_path: Path) -> None:
    head = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 20)}
    np.lib.format.write_array_header_1_0(head, header)
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive:
        archive.writestr("x.npy", head.getvalue())
        archive.writestr("y.npy", head.getvalue())
    says(refused("run", tmp_path / "big.npz", "naive", "--dry-run"), "too large", "8 GiB")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not an archive")
    says(refused("run", tmp_path / "bad.npz", "naive", "--dry-run"), "bad.npz", "damaged")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    says(
        refused("run", tmp_path / "bad.parquet", "naive", "--dry-run"), "Parquet", "write it again"
    )


def test_what_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(refused("run", "./imagse", "naive", "--dry-run"), "imagse: no such file or folder", ".npz")
    says(refused("run", "no_such_module:f", "naive", "--dry-run"), "no module named")
    says(refused("run", "split-mnits", "naive", "--dry-run"), "split-mnist", "./images")
    np.save(tmp_path / "x.npy", X)
    says(refused("run", tmp_path / "x.npy", "naive", "--dry-run"), "np.savez")
    (tmp_path / "x.csv").write_text("a,label\n1,2\n")
    monkeypatch.chdir(tmp_path)
    says(refused("run", "x.csv", "naive", "--dry-run"), "x.csv: expected", ".parquet file")
    says(refused("run", "ER", "x.npy"), "`perdure run x.npy replay`")
    says(refused("run", "split-digits", "naive", "--input", "tokens", "--dry-run"), "your own data")
    path = write_parquet(tmp_path / "a.parquet", "SELECT 1.5 AS a, 'x' AS b")
    says(refused("run", path, "naive", "--dry-run"), "columns are a, b", "label")


def test_labels_beyond_the_outputs_are_one_line() -> None:
    scenario = make_scenario("split-digits")
    changed = scenario.train._replace(y=scenario.train.y + 3)
    with pytest.raises(InputError, match="training label is 12 and the network has 10 outputs"):
        type(scenario)(**{**vars(scenario), "train": changed})


# --- runs -----------------------------------------------------------------------------------------


def test_own_data_is_trained_on_recorded_and_refused_when_it_changes(tmp_path: Path) -> None:
    x, y = table(80)
    path = write_npz(tmp_path / "tab.npz", x=x, y=y)
    config = make_config(str(path), "replay", epochs=2, batch=8, every=5)
    assert config.folder.startswith("tab.npz-replay-s0-")
    train_run(config, tmp_path / "run")
    record = perdure.open_run(tmp_path / "run")
    assert record.metadata.config["data_path"] == str(path)
    assert perdure.score(tmp_path / "run").metrics["acc.learning"] > 0.8
    write_npz(path, x=x + 1, y=y)
    setup._load_scenario.cache_clear()  # as in another process
    with pytest.raises(InputError, match="has changed since the run was planned"):
        train_run(config, tmp_path / "again")
    changed = make_config(str(path), "replay", epochs=2, batch=8, every=5)
    assert changed.folder != config.folder
    moved = shutil.copytree(
        tmp_path, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("cache")
    )
    assert (
        make_config(str(moved / "tab.npz"), "replay", epochs=2, batch=8, every=5).folder
        == changed.folder
    )


@pytest.mark.parametrize("strategy", ["ewc", "mas", "gem", "lwf", "gdumb", "random", "si"])
def test_tokens_and_features_suit_every_kind_of_strategy(tmp_path: Path, strategy: str) -> None:
    tokens = np.random.default_rng(0).integers(0, 30, (80, 6))
    y = np.arange(80) % 4
    for name, arrays in (("a", {"tokens": tokens, "y": y}), ("b", {"x": table(80)[0], "y": y})):
        path = write_npz(tmp_path / f"{name}.npz", **arrays)
        config = make_config(str(path), strategy, iterations=2, batch=8, setting="task")
        scenario = load_scenario(config)
        learner, plan = build_learner(config, scenario)
        assert sum(1 for _ in train(scenario, learner, plan)) == 4


def test_a_study_names_data_relative_to_its_file(tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "s.toml").write_text(
        'scenarios = ["../images"]\nstrategies = ["naive"]\nseeds = 2\n'
        '[scenario."../images"]\nnum_tasks = 4\niterations = 1\n'
    )
    answer = run("study", "status", tmp_path / "studies" / "s.toml")
    assert answer.code == 0, answer.err
    says(answer.out, "0 of 2 runs done")
    (note,) = read_study(tmp_path / "studies" / "s.toml").notes  # which `study run` prints
    says(note, "images: no test part")
    (tmp_path / "studies" / "s.toml").write_text(
        'scenarios = ["./images"]\nstrategies = ["naive"]\n'
    )
    says(refused("study", "status", tmp_path / "studies" / "s.toml"), "studies/images", "no such")


def test_the_commands_of_the_documentation_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write_images(tmp_path / "images")
    x, y = table()
    write_npz(tmp_path / "data.npz", x=x, y=y)
    write_npz(tmp_path / "texts.npz", x=np.arange(360).reshape(60, 6) % 50, y=y)
    rows = "SELECT i * 0.5 AS a, i % 4 AS label FROM range(40) t(i)"
    write_parquet(tmp_path / "data.parquet", rows)
    (tmp_path / "own_scenario.py").write_text(FUNCTION)
    section = DOCS.read_text().split("## Your own data")[1].split("```")[1]
    commands = [line.split("#")[0].split()[1:] for line in section.splitlines()[1:] if line]
    assert len(commands) == 5
    for command in commands:
        answer = run(*command, "--dry-run", "--seeds", "1")
        assert answer.code == 0, answer.err
