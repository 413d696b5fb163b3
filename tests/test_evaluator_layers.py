"""The first law over layers: counting operations leaves the bits of training as they are.

On CPU here; `pytest tests/test_cuda*.py` has the same models on a GPU.
"""

from __future__ import annotations

from functools import partial

import pytest

from perdure.models import MODELS

from .evaluator_layers import LAYERS, pictures, shipped
from .evaluator_loops import ROWS, changed, train, watched


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("name", LAYERS)
def test_training_is_untouched(name: str) -> None:
    assert not changed(watched(LAYERS[name], {}, train_data=ROWS), train(LAYERS[name]))


@pytest.mark.parametrize("name", MODELS)
def test_training_of_our_models_is_untouched(name: str) -> None:
    tasks, make = pictures(), partial(shipped, name)
    found = watched(make, {"tasks": tasks}, tasks=tasks, steps=2, train_data=10)
    assert not changed(found, train(make, tasks=tasks, steps=2))
