"""The private parts of PyTorch that the evaluator uses: this fails when one of them goes away.

They have no public counterpart. `pyproject.toml` names the range of PyTorch versions they were
tried with; before it is widened, this file and the laws have to pass.
"""

from __future__ import annotations

from multiprocessing import util
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils import _python_dispatch as dispatch
from torch.utils._pytree import arg_tree_leaves
from torch.utils.flop_counter import flop_registry

from perdure.evaluation.costs.flops import _FORMULAS, FlopCounter
from perdure.evaluation.state.preserve import _set_version


@pytest.mark.parametrize(
    "name",
    [
        "_dispatch_has_kernel",
        "_dispatch_has_kernel_for_any_dispatch_key",
        "_dispatch_has_kernel_for_dispatch_key",
        "_dispatch_keys",
        "_after_autograd_keyset",
        "_len_torch_dispatch_stack",
    ],
)
def test_the_dispatcher(name: str) -> None:
    assert hasattr(torch._C, name)
    assert torch._C.DispatchKey.CompositeImplicitAutograd is not None


def test_the_stack_of_modes() -> None:
    counter = FlopCounter()
    assert torch._C._len_torch_dispatch_stack() == 0
    dispatch._push_mode(counter)
    assert dispatch._get_current_dispatch_mode_stack() == [counter]
    assert torch._C._len_torch_dispatch_stack() == 1
    assert dispatch._pop_mode() is counter


def test_operators() -> None:
    linear = torch.ops.aten.linear.default
    assert isinstance(linear, torch._ops.OpOverload)
    assert linear._overloadpacket is torch.ops.aten.linear
    assert callable(linear._op_dk)
    assert arg_tree_leaves(1, [2], a=(3,)) == [1, 2, 3]
    assert torch.ops.aten.mm in flop_registry
    assert all(map(callable, _FORMULAS.values()))


def test_version_counters_can_be_set_back() -> None:
    tensor = torch.zeros(2)
    version = tensor._version
    tensor.add_(1)
    assert tensor._version == version + 1
    _set_version(tensor, version)
    assert tensor._version == version


def test_modules_hold_their_tensors_in_dicts() -> None:
    module: Any = nn.Sequential(nn.BatchNorm1d(2))
    norm = module[0]
    assert module._modules == {"0": norm}
    assert [*norm._parameters] == ["weight", "bias"]
    assert [*norm._buffers] == ["running_mean", "running_var", "num_batches_tracked"]
    assert {"_forward_hooks", "_forward_pre_hooks"} <= set(vars(norm))


def test_the_cache_of_parametrizations() -> None:
    assert parametrize._cache_enabled == 0
    assert parametrize._cache == {}


def test_what_says_that_code_was_compiled() -> None:
    from torch._dynamo import eval_frame, utils  # here: it takes a second

    assert not utils.counters["frames"] or utils.counters["frames"]["total"]
    assert isinstance(eval_frame.cached_backends, dict)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_say_their_sizes() -> None:
    nested = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)])
    assert nested._nested_tensor_size()[:, 0].tolist() == [2, 4]


def test_sparse_tensors_have_indices_and_values() -> None:
    sparse = torch.eye(3).to_sparse()
    assert sparse._indices().shape == (2, 3)
    assert sparse._values().shape == (3,)


def test_a_counter_leaves_no_hook_behind() -> None:
    """What runs in forked children goes away with the counter."""
    before = len(util._afterfork_registry)  # type: ignore[attr-defined]
    counter = FlopCounter()
    counter.start()
    counter.stop()
    del counter
    assert len(util._afterfork_registry) == before  # type: ignore[attr-defined]
