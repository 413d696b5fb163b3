"""The shape of the code: packages as documented, one name per class, one reader of run.json."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

shape = import_module("benchmarks.shape")
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "perdure"


def packages() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [c for c in contracts["contracts"] if c["type"] == "layers"]
    return [layer.replace("perdure.", "") for layer in contract["layers"]]


def test_the_contract_and_the_page_name_every_package() -> None:
    assert {name for layer in layers() for name in layer.split(" | ")} == packages()
    page = (ROOT / "docs" / "architecture.md").read_text()
    (listed,) = re.findall(r"```\n(.*?)```", page, flags=re.DOTALL)
    assert listed.split("\n")[:-1] == layers()
    drawing = (ROOT / "docs" / "pictures" / "architecture.svg").read_text()
    for name in packages():
        assert f"**`{name}`**" in page
        assert f">{name}<" in drawing


def test_every_class_name_stands_for_one_class() -> None:
    # The callback has the same name in every framework, as users of several expect.
    assert shape.repeated_classes(shape.parse_all(SOURCE)) == ["ContinualEvaluation"]
    assert shape.repeated_classes(shape.parse_all(SOURCE / "adapters")) == ["ContinualEvaluation"]
    twice = ast.parse("class A: ...\nclass B: ...\nclass A: ...")
    assert shape.repeated_classes(ast.walk(twice)) == ["A"]


def test_one_module_knows_the_files_of_a_run() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if shape.reads_run_json(path)]
    assert [path.name for path in modules] == ["run_folder.py"]


def test_packages_stay_small() -> None:
    assert max(shape.modules_per_package(SOURCE).values()) <= 15
