"""A network of one's own by "module:factory": what works, and what is said where it does not."""

from __future__ import annotations

import sys
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from perdure.models import HIDDEN, build, describe_model
from perdure.record import InputError

from .cli_helpers import start
from .test_models import images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[[str], str]

SHAPE = (1, 4, 4)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Return a function that writes a module to the current directory and gives its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    before = set(sys.modules)

    def module(text: str) -> str:
        name = f"own_{abs(hash(text))}"
        head = "import torch\nfrom torch import nn\n"
        (tmp_path / f"{name}.py").write_text(head + dedent(text))
        return name

    yield module
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def forward(body: str, *, init: str = "self.last = nn.Linear(16, outputs)") -> str:
    """Return a module whose network has these lines in __init__ and forward."""
    return f"""
class Net(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
{indent(dedent(init), " " * 8)}
    def forward(self, x):
        x = x.flatten(1)
{indent(dedent(body), " " * 8)}
"""


def refusal(name: str, *words: str, outputs: int = 3, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        build(name, SHAPE, outputs, **options)
    line = str(caught.value)
    assert len(line.splitlines()) == 1, line
    for word in (repr(name), *words):
        assert word in line, f"{word!r} is not in {line!r}"
    return caught.value


# --- what works -----------------------------------------------------------------------------------


def test_a_function_or_a_class_from_the_current_directory(write: Write) -> None:
    name = write("""
        def small(shape, outputs, *, width=7):
            return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.Linear(width, outputs))

        class Inside:
            @staticmethod
            def small(shape, outputs):
                return small(shape, outputs)
    """)
    network = build(f"{name}:small", SHAPE, 3, width=5)
    assert isinstance(network.head, nn.Linear)
    assert network.head.in_features == 5
    assert build(f"{name}:Inside.small", SHAPE, 3)(images(SHAPE)).shape == (2, 3)
    assert describe_model(f"{name}:small") == f"your own, from {name}:small"


def test_a_module_beside_a_script_run_from_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from beside import nn\n"
        "def net(shape, outputs):\n    return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs))\n"
    )
    (tmp_path / "beside.py").write_text("from torch import nn\n")
    (tmp_path / "elsewhere").mkdir()
    script = tmp_path / "elsewhere" / "run.py"  # so that the folder is not on the path by itself
    script.write_text(
        "from perdure.models import build\nprint(build('mine:net', (1, 4, 4), 3).head)\n"
    )
    answer = start(str(script), command=[sys.executable], cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert answer.out == "Linear(in_features=16, out_features=3, bias=True)\n"


def test_the_path_gets_the_current_directory_once_and_last(write: Write, tmp_path: Path) -> None:
    name = write(
        "def net(shape, outputs): return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs))"
    )
    for _ in range(2):
        build(f"{name}:net", SHAPE, 3)
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1


def test_lazy_layers_are_drawn_while_building(write: Write) -> None:
    name = write("""
        def net(shape, outputs):
            return nn.Sequential(
                nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(outputs)
            )
    """)
    networks = []
    for _ in range(2):
        torch.manual_seed(0)
        networks.append(build(f"{name}:net", SHAPE, 3, heads=[1, 2]))
    assert all(module.training for module in networks[0].modules())
    assert networks[0].state_dict()["body.1.num_batches_tracked"].item() == 0
    x = images(SHAPE)
    assert torch.equal(networks[0](x, 1), networks[1](x, 1))


def test_building_leaves_the_network_as_the_factory_made_it(write: Write) -> None:
    name = write("""
        def net(shape, outputs):
            torch.manual_seed(3)
            norm = nn.BatchNorm2d(1)
            return nn.Sequential(norm, nn.Flatten(), nn.Dropout(), nn.Linear(16, outputs))
    """)
    network = build(f"{name}:net", SHAPE, 3)
    norm = network.get_submodule("body.0")
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.num_batches_tracked is not None
    assert norm.num_batches_tracked.item() == 0
    assert all(module.training for module in network.modules())
    torch.manual_seed(3)
    nn.Linear(16, 3)
    expected = torch.rand(1)
    build(f"{name}:net", SHAPE, 3)
    assert torch.equal(torch.rand(1), expected)


NOT_LAST = {
    "an activation follows": "return self.last(x).relu()",
    "a scale follows": "return 3 * self.last(x)",
    "a softmax follows": "return self.last(x).log_softmax(1)",
    "used twice": "return self.last(self.last(x).repeat(1, 8)[:, :16])",
    "its weights are read": "return x @ self.last.weight.T + self.last.bias",
    "its input is needed again": "return self.last(x) + x[:, :2]",
    "not used at all": "return x[:, :2]",
}


@pytest.mark.parametrize("how", NOT_LAST)
def test_a_layer_that_is_not_the_end_stays_where_it_is(write: Write, how: str) -> None:
    name = write(forward(NOT_LAST[how]))
    for seed in range(5):  # an activation leaves some scores as they are by chance
        torch.manual_seed(seed)
        network = build(f"{name}:Net", SHAPE, 2)
        torch.manual_seed(seed)
        alone = getattr(sys.modules[name], "Net")(SHAPE, 2)  # noqa: B009 - a module of the test's
        x = images(SHAPE, 9)
        assert torch.equal(network(x), alone(x))
        assert isinstance(network.head, nn.Identity)
        assert network.state_dict().keys() == {"body.last.weight", "body.last.bias"}
    refusal(f"{name}:Net", "nn.Linear with 2 outputs", "one head", outputs=2, heads=[1, 1])
    masked = build(f"{name}:Net", SHAPE, 2, mask_unseen=True)
    masked.open(0, [1])
    assert (masked(images(SHAPE))[:, 0] == HIDDEN).all()


def test_a_network_without_a_last_layer(write: Write) -> None:
    name = write("""
        def net(shape, outputs):
            return nn.Sequential(nn.Conv2d(1, outputs, 4), nn.Flatten())
        def other(shape, outputs):
            return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Unflatten(1, (outputs, -1)), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    """)  # fmt: skip  # noqa: E501
    assert build(f"{name}:net", SHAPE, 3)(images(SHAPE)).shape == (2, 3)
    refusal(f"{name}:net", "does not end in an nn.Linear", heads=[1, 2])
    refusal(f"{name}:other", "does not end in an nn.Linear", heads=[1, 1], outputs=2)


def test_the_last_of_several_layers_of_that_size(write: Write) -> None:
    name = write("""
        def net(shape, outputs):
            return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs), nn.ReLU(), nn.Linear(outputs, outputs, bias=False))
    """)  # noqa: E501
    network = build(f"{name}:net", SHAPE, 3, heads=[1, 2])
    assert [p.shape for p in network.head.parameters()] == [(1, 3), (2, 3)]
    assert isinstance(network.get_submodule("body.1"), nn.Linear)


def test_a_network_that_draws_in_evaluation_mode(write: Write) -> None:
    name = write(forward("return self.last(nn.functional.dropout(x, 0.5, True))"))
    torch.manual_seed(0)
    build(f"{name}:Net", SHAPE, 3)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    nn.Linear(16, 3)
    assert torch.equal(torch.rand(1), drawn)


# --- what is said ---------------------------------------------------------------------------------


def test_a_module_that_is_not_there(write: Write) -> None:
    refusal("own_missing:net", "no module named 'own_missing'", "from the folder")
    refusal("own_missing.part:net", "no module named 'own_missing'")
    name = write("x = 1")
    refusal(f"{name}.py:net", f"no module named '{name}.py'", "module:name")


def test_a_module_that_cannot_be_imported(write: Write) -> None:
    needs = write("import own_other_package")
    refusal(f"{needs}:net", f"{needs} requires 'own_other_package'", "not installed")
    broken = write("raise RuntimeError('first\\nsecond')")
    error = refusal(f"{broken}:net", f"importing {broken} failed", "RuntimeError: first second")
    assert isinstance(error.__cause__, RuntimeError)
    wrong = write("def net(:")
    refusal(f"{wrong}:net", "SyntaxError")


def test_an_attribute_that_is_not_there_or_cannot_be_called(write: Write) -> None:
    name = write("table = {}\ndef net(shape, outputs): ...")
    refusal(f"{name}:other", f"{name}.py) has no 'other'")
    refusal(f"{name}:net.inner", f"{name}.py) has no 'net.inner'")
    refusal(f"{name}:table", "is dict", "expected a function or class", "(shape, outputs)")
    refusal(f"{name}:", "model is", "module:name")
    refusal(":net", "model is", "module:name")


def test_a_factory_that_takes_something_else(write: Write) -> None:
    name = write("""
        def none(): ...
        def one(outputs): ...
        def more(shape, outputs, depth, *, width: int = 3) -> nn.Module: ...
        def apart(*, shape, outputs): ...
    """)
    refusal(f"{name}:none", "called with (shape, outputs)", "too many positional", "it takes ()")
    refusal(f"{name}:one", "called with (shape, outputs)", "it takes (outputs)")
    refusal(f"{name}:more", "missing", "'depth'", "it takes (shape, outputs, depth, *, width=3)")
    refusal(f"{name}:more", "(shape, outputs, depth=, size=)", "'size'", depth=1, size=2)
    refusal(f"{name}:apart", "too many positional", "it takes (*, shape, outputs)")


def test_a_factory_that_returns_something_else(write: Write) -> None:
    name = write("""
        def nothing(shape, outputs): ...
        def function(shape, outputs): return lambda x: x
    """)
    refusal(f"{name}:nothing", "returns NoneType", "expected a torch.nn.Module")
    refusal(f"{name}:function", "returns function", "expected a torch.nn.Module")


def test_an_error_of_the_factory_itself_is_not_changed(write: Write) -> None:
    name = write("def net(shape, outputs): return nn.Linear('a', outputs)")
    with pytest.raises(TypeError):
        build(f"{name}:net", SHAPE, 3)


def test_a_network_that_gives_something_else(write: Write) -> None:
    few = write("def net(shape, outputs): return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))")
    refusal(f"{few}:net", "returns (2, 2) for two examples", "expected a tensor of (2, 3)")
    deep = write("def net(shape, outputs): return nn.Linear(4, outputs)")
    refusal(f"{deep}:net", "returns (2, 1, 4, 3)", "expected a tensor of (2, 3)")
    pair = write(forward("return self.last(x), x"))
    refusal(f"{pair}:Net", "returns tuple", "expected a tensor of (2, 3)")
    fails = write("def net(shape, outputs): return nn.Sequential(nn.Flatten(), nn.Linear(9, 3))")
    error = refusal(f"{fails}:net", "fails for inputs of (1, 4, 4)", "RuntimeError", "2x16 and 9x3")
    assert isinstance(error.__cause__, RuntimeError)
