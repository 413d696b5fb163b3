"""Compares your values with the vectors in this folder; exits with 1 if one differs.

python run.py mymetrics.py    # METRICS: a dict of functions by id; each takes a case
python run.py values.json     # from any language: {"matrix.json": [{id: value} per case], ...}
"""

import json
import runpy
import sys
from pathlib import Path

TOLERANCE = 1e-6  # single precision suffices


def main(path: str) -> int:
    """Print every value that differs and return the exit code."""
    compared = wrong = 0
    for name in ("matrix.json", "stream.json"):
        file = Path(__file__).parent / name
        cases = json.loads(file.read_text(encoding="utf-8"))["cases"]
        for case, values in zip(cases, compute(path, name, cases), strict=False):
            for id_, expected in case["expected"].items():
                if expected is None or id_ not in values:
                    continue
                compared += 1
                if values[id_] is None or not abs(values[id_] - expected) <= TOLERANCE:
                    wrong += 1
                    where = f"{name}, {case['name']}"
                    print(f"{where}: {id_} is {values[id_]}, expected {expected}")
    print(f"{compared - wrong} of {compared} values agree")
    return int(wrong > 0 or compared == 0)


def compute(path: str, name: str, cases: list[dict]) -> list[dict]:
    """Return your values for each case of a file: read, or computed by your functions."""
    if path.endswith(".json"):
        return json.loads(Path(path).read_text(encoding="utf-8")).get(name, [])
    metrics = runpy.run_path(path)["METRICS"]
    return [{k: metrics[k](case) for k in case["expected"] if k in metrics} for case in cases]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
