"""Which metrics of other tools agree with the vectors, by running the tools' own code.

python conformance/tools.py conformance/adapters/renate.py   # compute and write results/renate.json
python conformance/tools.py                                  # print the table of all results
"""

import hashlib
import json
import platform
import runpy
import sys
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
FILES = ("matrix.json", "stream.json")
TOLERANCE = 1e-6  # single precision suffices


def main(paths: list[str]) -> None:
    """Record the tools of these adapters, or print the table."""
    for path in paths:
        text = json.dumps(record(path), indent=1)
        (HERE / "results" / f"{Path(path).stem}.json").write_text(text + "\n", encoding="utf-8")
    if not paths:
        print(make_table())


def record(path: str) -> dict:
    """Return the values that a tool computes for every case, by the ids they should agree with."""
    allow_other_torchvision()
    adapter = runpy.run_path(path)
    metrics = {}
    for id_, compute in adapter["METRICS"].items():
        values = [compute(case) for case in find_vectors(id_)["cases"]]
        metrics[id_] = {
            "name": adapter["NAMES"][id_],
            "note": adapter["NOTES"].get(id_, ""),
            "values": [None if value is None else round(value, 9) for value in values],
        }
    about = {"tool": adapter["TOOL"], "version": adapter["VERSION"]}
    return {**about, "python": platform.python_version(), "vectors": digest(), "metrics": metrics}


def make_table() -> str:
    """Return the table in Markdown."""
    lines = ["| tool | its metric | id | agrees | notes |", "|---|---|---|---|---|"]
    for path in sorted((HERE / "results").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if result["vectors"] != digest():
            raise SystemExit(f"{path.name} was made with other vectors; record it again")
        for id_, metric in result["metrics"].items():
            agrees, notes = compare(id_, metric)
            tool = f"{result['tool']} {result['version']}"
            lines.append(f"| {tool} | `{metric['name']}` | `{id_}` | {agrees} | {notes} |")
    return "\n".join(lines)


def compare(id_: str, metric: dict) -> tuple[str, str]:
    """Return whether a tool's values agree with an id, and notes about them."""
    values, vectors = metric["values"], find_vectors(id_)
    equal = [other for other in vectors["definitions"] if agree(values, expect(vectors, other))]
    if id_ in equal:
        return "yes", metric["note"]
    pairs = zip(values, expect(vectors, id_), strict=True)
    value, expected = next((a, b) for a, b in pairs if not agree([a], [b]))
    notes = f"{metric['note']}; {value:.4g} instead of {expected:.4g}"
    return "**no**", f"equals `{equal[0]}`: {notes}" if equal else notes


def agree(values: list, expected: list) -> bool:
    """Return whether two lists of values agree wherever both are defined."""
    pairs = zip(values, expected, strict=True)
    return all(a is None or b is None or abs(a - b) <= TOLERANCE for a, b in pairs)


def expect(vectors: dict, id_: str) -> list:
    """Return the expected values of an id."""
    return [case["expected"][id_] for case in vectors["cases"]]


def find_vectors(id_: str) -> dict:
    """Return the contents of the file that defines an id."""
    files = (json.loads((HERE / name).read_text(encoding="utf-8")) for name in FILES)
    return next(vectors for vectors in files if id_ in vectors["definitions"])


def digest() -> str:
    """Return what tools are given, without what is expected of them, as a hash."""
    files = (json.loads((HERE / name).read_text(encoding="utf-8")) for name in FILES)
    cases = [case | {"expected": None} for vectors in files for case in vectors["cases"]]
    return hashlib.sha256(json.dumps(cases).encode()).hexdigest()[:16]


def allow_other_torchvision() -> None:
    """Declare the operators of torchvision, if it was compiled for another build of PyTorch.

    The tools import it, but their metrics do not use it.
    """
    with suppress(ImportError):
        import torch

        try:
            import torchvision  # noqa: F401
        except RuntimeError:
            for operator in ("nms", "qnms"):
                schema = "(Tensor a, Tensor b, float c) -> Tensor"
                torch.library.define(f"torchvision::{operator}", schema)


if __name__ == "__main__":
    main(sys.argv[1:])
