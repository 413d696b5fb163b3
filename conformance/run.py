"""Compares functions of your own with the vectors in this folder: python run.py mymodule.

`mymodule.METRICS` is a dict with a function per id: it takes a case and returns a number.
"""

import importlib
import json
import sys
from pathlib import Path

sys.path.insert(0, "")
metrics = importlib.import_module(sys.argv[1]).METRICS
wrong = 0
for name in ("matrix.json", "stream.json"):
    cases = json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))["cases"]
    for number, case in enumerate(cases):
        for id_, expected in case["expected"].items():
            if id_ in metrics and expected is not None:
                value = metrics[id_](case)
                if abs(value - expected) > 1e-9:
                    wrong += 1
                    print(f"{name}, case {number}: {id_} is {value}, expected {expected}")
print(f"{wrong} values differ" if wrong else "all values agree")
sys.exit(wrong > 0)
