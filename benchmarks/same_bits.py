"""Digests of small runs and of every number printed about them: did a refactoring keep them?

    python benchmarks/same_bits.py -o before.json      # at one commit
    python benchmarks/same_bits.py --against before.json   # at another, on the same machine

Bits depend on the processor and on PyTorch, so nothing is committed: run it twice on one machine.
Only names and keys may differ: of JSON the sorted numbers are compared, of files their bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RUNS = {
    "class": ("naive", "replay", "agem", "gem", "ewc", "si", "mas", "lwf", "gdumb", "cwr-star",
              "cumulative", "joint", "single", "random"),
    "task": ("replay", "lwf", "ewc", "gem"),
}  # fmt: skip
SAME = ("points.csv", "gradients.csv")


def perdure(*words: str) -> str:
    command = [sys.executable, "-m", "perdure", *words]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if answer.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: exit code {answer.returncode}\n{answer.stderr}")
    return answer.stdout


def numbers(value: Any) -> list[str]:
    """Return every number inside a JSON value, but for those that time makes, sorted."""
    if isinstance(value, dict):
        return sorted(
            n for key, inner in value.items() if "seconds" not in key for n in numbers(inner)
        )
    if isinstance(value, list):
        return sorted(n for inner in value for n in numbers(inner))
    return [repr(value)] if isinstance(value, int | float) else []


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    weights = json.loads((folder / "done.json").read_text())["weights"]
    kept = {name: sha((folder / name).read_bytes()) for name in SAME if (folder / name).exists()}
    packed = sorted(sha(path.read_bytes()) for path in folder.glob("*/*.npy"))
    return {"weights": weights, **kept, "per example": sha("".join(packed).encode())}


def measure() -> dict[str, Any]:
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "runs"
        for setting, strategies in RUNS.items():
            for strategy in strategies:
                words = ["--setting", setting, "--seeds", "2", "--iterations", "25"]
                perdure("run", "split-digits", strategy, *words, "--store", str(store / setting))
        for folder in sorted(store.glob("*/*/done.json")):
            run = folder.parent
            result[f"{run.parent.name}/{run.name[: run.name.rindex('-')]}"] = digests(run)
        for setting in RUNS:
            for strategy in RUNS[setting]:
                runs = sorted(map(str, (store / setting).glob(f"split-digits-{strategy}-s*")))
                for command in ("score",):
                    printed = json.loads(perdure(command, *runs, "--format", "json"))
                    result[f"{command} {setting}/{strategy}"] = numbers(printed)
            printed = json.loads(perdure("compare", str(store / setting), "--format", "json"))
            result[f"compare {setting}"] = numbers(printed)
    for example in ("five_tasks.json", "stability_gap.csv"):
        result[f"score {example}"] = numbers(
            json.loads(perdure("score", f"examples/{example}", "--format", "json"))
        )
    return result


def main() -> int:
    """Measure, and write or compare; return 1 if anything is not the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    result = measure()
    if options.output:
        options.output.write_text(json.dumps(result, indent=1))
    if options.against is None:
        print(f"{len(result)} digests")
        return 0
    before = json.loads(options.against.read_text())
    different = [key for key in {**before, **result} if before.get(key) != result.get(key)]
    for key in different:
        print(f"different: {key}")
    print(f"{len(result) - len(different)} of {len(before)} digests are the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
