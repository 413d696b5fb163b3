"""What the package says of itself is true, and stands in one place each."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import perdure

from .packaging.quick_start import _matches, _read_session, _with_checks

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
REQUIREMENTS = PROJECT["project"]["dependencies"] + [
    line for lines in EXTRAS.values() for line in lines if not line.startswith("perdure[")
]
PLACEHOLDER = re.compile(r"PLACEHOLDER-[A-Z-]*[A-Z]")
# Where the word stands for itself.
EXPLAINED = {"docs/release.md", "tests/test_packaging.py"}


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


def name_of(requirement: str) -> str:
    return plain(re.split(r"[<>=\[]", requirement)[0])


def files() -> list[str]:
    """Every file that belongs to the project, from git; without it, there is nothing to ask."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout of git")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_a_requirement_has_a_lower_bound_that_the_lock_keeps(requirement: str) -> None:
    (bound,) = re.findall(r">=([\d.]+)", requirement)
    locked = dict(
        line.split("==") for line in read("requirements.lock").splitlines() if "==" in line
    )
    versions = {plain(name): version for name, version in locked.items()}
    assert numbers(versions[name_of(requirement)]) >= numbers(bound)


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/perdure/__init__.py"
    for path in ("pyproject.toml", "CITATION.cff", "packaging/conda/recipe.yaml"):
        assert perdure.__version__ not in read(path)


def test_placeholders_are_those_of_the_release_checklist() -> None:
    used = {
        (word, name)
        for name in files()
        if name not in EXPLAINED
        for word in PLACEHOLDER.findall((ROOT / name).read_bytes().decode("utf-8", "replace"))
    }
    rows = re.findall(r"^\| `(PLACEHOLDER-[A-Z-]+)` \| `(.+?)` \|", read("docs/release.md"), re.M)
    assert used == set(rows)
    assert len(rows) == len({word for word, _ in rows}) > 0  # each is filled in at one place


def test_links_of_the_index_page_are_absolute() -> None:
    hatch_build = pytest.importorskip("hatch_build", reason="needs hatchling")
    page = hatch_build.with_absolute_links(read("README.md"), "https://example.invalid/x")
    targets = re.findall(r"\]\((.*?)\)", page)
    assert len(targets) > 20
    assert all(target.startswith(("https://", "#")) for target in targets)
    for target in targets:
        in_repository = re.fullmatch(r"https://example.invalid/x/(?:blob|raw)/HEAD/(.+)", target)
        assert in_repository is None or (ROOT / in_repository[1]).exists()
    assert "(https://example.invalid/x/raw/HEAD/docs/stability_gap.png)" in page
    unchanged = "[a](https://b.org/c), [d](#e), [f](mailto:g)"
    assert hatch_build.with_absolute_links(unchanged, "https://example.invalid/x") == unchanged


def test_every_extra_is_documented_with_what_it_brings() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", read("docs/install.md"), re.M)
    assert [name for name, _ in rows] == list(EXTRAS)
    names = {"pytorch": "torch"}
    for extra in ("train", "report", "ray"):
        listed = {plain(name) for name in dict(rows)[extra].split(", ")}
        brought = {name_of(line) for line in EXTRAS[extra]} - {"typing-extensions"}
        assert {names.get(name, name) for name in listed} == brought


def test_the_conda_recipe_needs_what_the_wheel_needs() -> None:
    recipe = read("packaging/conda/recipe.yaml")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    lines = {line.strip(" -").replace(" ", "") for line in run.splitlines()}
    python = f"python{PROJECT['project']['requires-python']}"
    assert lines == {*PROJECT["project"]["dependencies"], python}
    assert PROJECT["build-system"]["requires"][0].replace(">=", " >=") in recipe
    (command,) = PROJECT["project"]["scripts"].items()
    assert " = ".join(command) in recipe


def test_classifiers_name_the_pythons_that_are_tested() -> None:
    classifiers = PROJECT["project"]["classifiers"]
    named = {line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)}
    workflow = set(re.findall(r'"(3\.\d+)"', read(".github/workflows/ci.yml")))
    assert named == workflow
    assert PROJECT["project"]["requires-python"] == f">={min(named, key=numbers)}"


def test_the_workflow_runs_the_commands_of_the_readme_and_targets_that_exist() -> None:
    workflow, makefile = read(".github/workflows/ci.yml"), read("Makefile")
    assert re.findall(r"^make (\w+) ", read("README.md"), re.M) == ["demo", "test"]
    assert "command: [demo, test]" in workflow
    called = set(re.findall(r"run: make ([\w-]+)", workflow))
    assert {"package", "docs", "test-lowest", "test-pythons"} <= called
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    assert called - {"docs"} <= targets


def test_files_that_github_and_hooks_read_are_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    paths = [
        *ROOT.glob(".github/**/*.yml"),
        *ROOT.glob(".*.yaml"),
        *ROOT.glob("packaging/*/*.yaml"),
    ]
    assert len(paths) >= 7
    for path in paths:
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)
    for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem != "config":
            ids = [field["id"] for field in form["body"]]
            assert len(set(ids)) == len(ids)
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    check = read("Makefile").partition("\ncheck:")[2].partition("\n\n")[0]
    for hook in hooks:  # a hook calls what `make check` calls
        assert hook["entry"].split()[0].replace(".venv/bin", "$(BIN)") in check


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = read("CHANGELOG.md")
    versions = re.findall(r"^## (.*)$", text, re.M)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", version)
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.M)) <= kinds


def test_the_steps_of_contributing_name_files_that_exist() -> None:
    text = read("CONTRIBUTING.md")
    named = re.findall(r"`((?:src|tests|docs|studies|\.github)/[\w/.-]+)`", text)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.M))
    assert set(re.findall(r"`make ([\w-]+)`", text)) <= targets


def test_a_session_is_read_as_commands_with_their_output() -> None:
    assert _read_session("$ a\n1\n\n2\n$ b c\n") == [("a", "1\n\n2\n"), ("b c", "\n")]
    assert _matches("x\n", "x\n")
    assert not _matches("x\ny\n", "x\n")
    assert _matches("x\ny\n", "x\n…\n")
    assert not _matches("z\ny\n", "x\n…\n")


def test_a_comment_of_the_quick_start_is_compared_with_the_value() -> None:
    exec(_with_checks("a = 0.1 + 0.2\na  # 0.3\n"), {})
    with pytest.raises(AssertionError, match="3 instead of 4"):
        exec(_with_checks("1 + 2  # 4"), {})
