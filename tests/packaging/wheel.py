"""Builds the package, checks it, and tries it where nothing else is installed: `make package`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

from .environments import ROOT, call, make_environment, output_of
from .quick_start import follow

DIST = ROOT / "dist"
LIMIT = 1_000_000  # bytes of the wheel: studies/packaging/README.md says of what
WITHOUT_TORCH = "import importlib.util as u, perdure; assert u.find_spec('torch') is None"


def main() -> None:
    """Stop with the first thing that is wrong."""
    shutil.rmtree(DIST, ignore_errors=True)
    call(sys.executable, "-m", "build", "--outdir", DIST)
    call(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,) = DIST.glob("*.whl")
    check_contents(wheel)
    with tempfile.TemporaryDirectory() as folder:
        for tool in ("pip", "uv"):
            try_core(make_environment(tool, Path(folder, tool), wheel), Path(folder))
            print(f"{tool}: the quick start prints what it says, without PyTorch")
        programs = make_environment("uv", Path(folder, "report"), f"{wheel}[report]")
        expect(programs, "perdure report results.csv -o report.html", 0, "", Path(folder))
        expect(programs, "perdure plot heatmaps results.csv -o heatmaps.png", 0, "", Path(folder))
        print("uv: perdure[report] draws a report and a figure")


def check_contents(wheel: Path) -> None:
    """Check that a wheel is small and has every file of the package and no other."""
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        largest = max(archive.infolist(), key=lambda entry: entry.compress_size)
    if difference := sorted(names ^ files):
        raise SystemExit(f"{wheel.name} and src/ differ in {', '.join(difference)}")
    if "perdure/py.typed" not in names:
        raise SystemExit(f"{wheel.name} has no perdure/py.typed: its types would be ignored")
    size = wheel.stat().st_size
    what = f"{wheel.name} has {size:,} bytes, of which {largest.filename} {largest.compress_size:,}"
    if size > LIMIT:
        raise SystemExit(f"{what}; at most {LIMIT:,} were expected")
    print(what)


def try_core(programs: Path, folder: Path) -> None:
    """Follow the quick start, and see a command that needs more say what to install."""
    expect(programs, f'python -c "{WITHOUT_TORCH}"', 0, "", folder)
    follow(programs, folder)
    expect(programs, "perdure run", 2, "install 'perdure[train]'", folder)


def expect(programs: Path, command: str, code: int, text: str, folder: Path) -> None:
    """Stop if a command ends with another exit code, or without a text on standard error."""
    done = output_of(programs, command, folder)
    if done.returncode != code or text not in done.stderr:
        raise SystemExit(
            f"$ {command}\n{done.stdout}{done.stderr}\nexit code {done.returncode}; "
            f"expected {code} and {text!r}"
        )


if __name__ == "__main__":
    main()
