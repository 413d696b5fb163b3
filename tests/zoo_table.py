"""The table of the zoo: every model and situation, and what the law says of each executor.

`docs/zoo.md` prints it: `python -m tests.zoo_table > docs/zoo.md`.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.utils import parametrizations, parametrize

from . import zoo_callables as c
from . import zoo_data as sets
from . import zoo_models as m
from .evaluator_loops import FEATURES
from .evaluator_models import MODELS, Checkpointed, Counting, normed
from .zoo_loop import (
    BATCHES,
    DRAWS,
    EXECUTORS,
    LIMIT,
    REFUSED,
    SNAPSHOT,
    Row,
    Subject,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def row(name: str, make: Callable[[], Subject], why: str = "", **verdicts: str) -> tuple[Any, ...]:
    return name, make, verdicts, why


def situation(name: str, **how: Any) -> tuple[Any, ...]:
    """Return a row whose model is ordinary, and whose loop is not."""
    make = how.pop("make", normed)
    return row(name, lambda: Subject([make()], **how))


SCRIPT = "`the model has a part in TorchScript, which trains to other bits after other calls`"
UNSEEN = (
    "`the evaluation calls Linear, which is not part of the model … Evaluator(…, modules=[it, …])`"
)
NO_MARGIN = {"half precision": REFUSED}
BESIDE = {"worker": LIMIT, "latest": LIMIT}

NOT_A_MODULE = [
    row("lambda over a local variable", c.closure),
    row("lambda over a global", c.named_global),
    row("function that calls another", c.calls_a_helper),
    row("`model.forward`", c.bound_forward),
    row("`model.__call__`", lambda: c.wrapped(lambda net: net.__call__)),
    row("object with `__call__`", lambda: c.wrapped(c.Wrapper)),
    row("object with slots", lambda: c.wrapped(c.Slotted)),
    row("method of an object", lambda: c.wrapped(lambda net: c.Wrapper(net).predict)),
    row("object in an object", lambda: c.wrapped(lambda net: c.Wrapper(c.Wrapper(net)))),
    row("`functools.partial`", lambda: c.wrapped(lambda net: partial(lambda a, x: a(x), net))),
    row("function with a default", lambda: c.wrapped(c.with_default)),
    row("function under `torch.no_grad`", lambda: c.wrapped(c.decorated)),
    row("lists and dicts in a namespace", lambda: c.wrapped(c.in_namespace)),
    row("function without any module", c.stateless),
    row("`functional_call` on a dict of weights", c.functional, SNAPSHOT, **BESIDE),
    row("module on a class", lambda: c.hidden(named=False), UNSEEN, all=REFUSED),
    row("module on a class, in `modules=`", lambda: c.hidden(named=True)),
]  # fmt: skip
PARTS = [
    row("`forward=` with a head outside", c.head_outside),
    row("`forward=` with a head per task", c.head_per_task),
    row("head on a class", lambda: c.hidden_head(named=False), UNSEEN.replace(
        "Linear", "BatchNorm1d"), all=REFUSED),
    row("head on a class, in `modules=`", lambda: c.hidden_head(named=True)),
    row("head in a plain list", lambda: c.holding(lambda top: [top], lambda tops: tops[0])),
    row("head in a plain dict", lambda: c.holding(lambda top: {1: top}, lambda tops: tops[1])),
    row("head in nested tuples", lambda: c.holding(lambda top: ([top],), lambda t: t[0][0])),
    row("head in an object", lambda: c.holding(c.Wrapper, lambda top: top.net)),
    row("plain list that grows", c.growing_list),
    row("`forward` replaced on the instance", c.own_forward),
    row("forward hook with a module", c.hooked),
    row("layer made in the forward", m.of(c.Making)),
    row("`score=` through a frozen network", c.scored_by_features, **NO_MARGIN,
        why="`precision='screened' is for accuracy`"),
    row("`score=` with a criterion", c.scored_by_criterion, **NO_MARGIN,
        why="`precision='screened' is for accuracy`"),
]  # fmt: skip
LIMITS = {"noisy": DRAWS, "batch norm without statistics": BATCHES}
ORDINARY = [
    row(name, m.of(make), LIMITS.get(name, ""), **({"all": LIMIT} if name in LIMITS else {}))
    for name, make in MODELS.items()
]
ARCHITECTURES = [
    row("LSTM with dropout", m.of(m.Recurrent)),
    row("TransformerEncoder (fast path)", m.of(m.Transformer)),
    row("42 layers with batch norm", m.of(m.deep)),
    row("weight norm", m.of(lambda: m.parametrized(parametrizations.weight_norm))),
    row("weight norm by hooks", m.of(lambda: m.parametrized(m.weight))),
    row("spectral norm by hooks", m.of(lambda: m.parametrized(m.spectral))),
    row("orthogonal weights", m.of(lambda: m.parametrized(parametrizations.orthogonal))),
    row("AveragedModel is evaluated", m.averaged),
    row("DataParallel", m.of(lambda: nn.DataParallel(normed()))),
    row("scripted", m.of(m.scripted), SCRIPT, all=REFUSED),
    row("traced", m.of(m.traced), SCRIPT, all=REFUSED),
    row("scripted part", m.of(m.Part), SCRIPT, all=REFUSED),
    row("head in TorchScript, in a plain list", lambda: c.holding(
        lambda top: [torch.jit.script(top)], lambda tops: tops[0]), SCRIPT, all=REFUSED),
    row("lazy layers", m.of(lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(4)))),
    row("model that keeps its output", m.of(m.Keeping)),
    row("model with a lock", m.of(m.Locked)),
    row("generator of its own", lambda: m.own_noise(m.torch_generator, m.torch_draw, always=False)),
    row("generator of its own, in evaluation too", lambda: m.own_noise(
        m.torch_generator, m.torch_draw, always=True), DRAWS, all=LIMIT),
    row("NumPy generator, in evaluation too", lambda: m.own_noise(
        m.numpy_generator, m.random_draw, always=True), DRAWS, all=LIMIT),
    row("`random.Random`, in evaluation too", lambda: m.own_noise(
        m.python_generator, m.random_draw, always=True), DRAWS, all=LIMIT),
    row("running mean that is no buffer", m.of(m.PlainTensor), SNAPSHOT, **BESIDE),
    row("forward that counts its calls", m.of(m.Counter), all=LIMIT,
        why="what a forward pass does to Python objects is not undone: training differs"),
]  # fmt: skip


def added(x: Tensor, odd: Tensor) -> Tensor:
    return x + odd.float()


TENSORS = [
    row("expanded buffer", m.with_buffer(lambda: torch.rand(1).expand(FEATURES), added)),
    row("expanded buffer of integers", m.with_buffer(
        lambda: torch.ones(1).long().expand(FEATURES), added)),
    row("sliding windows", m.with_buffer(lambda: torch.rand(7).unfold(0, 2, 1).T[0], added)),
    row("sparse COO buffer", m.with_buffer(lambda: torch.eye(6).to_sparse(), torch.mm)),
    row("sparse CSR buffer", m.with_buffer(lambda: torch.eye(6).to_sparse_csr(), torch.mm)),
    row("quantized buffer", m.with_buffer(m.quantized, lambda x, odd: x + odd.dequantize())),
    row("buffer on the meta device, unused", m.with_buffer(
        lambda: torch.zeros(3, device="meta"), lambda x, _: x)),
    row("model on the meta device", m.of(m.on_meta), all=REFUSED,
        why="`the model is on the meta device, where tensors have no values`"),
    row("buffer made in inference mode", m.with_buffer(m.inference, lambda x, odd: x + odd)),
    row("empty buffer", m.with_buffer(lambda: torch.zeros(0), lambda x, odd: x + odd.sum())),
    row("buffer that is a view of a parameter", m.of(m.Viewed)),
    row("transposed weights", m.of(m.transposed)),
    row("class of parameters", m.of(m.own_parameter)),
    row("complex weights", m.of(m.Complex)),
    row("float64", m.double_precision),
    row("bfloat16", m.half_precision),
    row("sparse gradients", m.of(m.SparseGradients)),
    row("embeddings with `max_norm`", m.of(lambda: m.Words(max_norm=0.5))),
    row("head grown by `.data =`, stale gradient", m.stale_gradient),
]  # fmt: skip
DATA = [
    row("DataLoader with shuffle and a shared generator", sets.shared(sets.shuffled)),
    row("SubsetRandomSampler with a shared generator", sets.loaders(sets.all_of)),
    row("WeightedRandomSampler with a shared generator", sets.loaders(sets.weighted)),
    row("sampler with state, in use for training", sets.in_use),
    row("batch sampler with a shared generator", sets.shared(sets.own_batches)),
    row("sampler that cannot be copied", sets.loaders(sets.Uncopied), all=REFUSED,
        why="`task 'a': the sampler Uncopied cannot be copied … pass the Dataset itself`"),
    row("Dataset with a shared generator", sets.shared(sets.noisy)),
    row("Dataset with a NumPy generator", sets.shared(sets.noisy_method, m.numpy_generator)),
    row("Dataset with `random.Random`", sets.shared(sets.noisy_method, m.python_generator)),
    row("Subset of such a Dataset", sets.shared(sets.noisy_subset)),
    row("DataLoader of such a Dataset", sets.shared(sets.noisy_loader)),
    row("`collate_fn` with a shared generator", sets.shared(sets.collated)),
    row("function with a shared generator", sets.shared(sets.factories)),
    row("training set that draws, as `train_data=`", sets.training_set),
    row("IterableDataset with a shared generator", sets.shared(sets.streams)),
    row("IterableDataset without an end", sets.shared(sets.endless), all=REFUSED,
        why="`task 'a': Endless is a stream of more than 10000 examples`"),
    row("Dataset that counts its reads", sets.counts_reads, all=LIMIT,
        why="only generators are restored: give the evaluator a Dataset of its own"),
]  # fmt: skip


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=False)


LOOPS = [
    situation("Adam", optimizer=torch.optim.Adam),
    situation("fused AdamW", optimizer=partial(torch.optim.AdamW, fused=True)),
    situation("autocast around the forward", inside=m.half),
    situation("autocast around the step", around=m.half),
    situation("autocast in the forward", make=lambda: m.Amp(once=False)),
    situation("autocast in the forward and around the step", make=lambda: m.Amp(once=False),
        around=m.half),
    situation("autocast object of the model, and around the step", make=lambda: m.Amp(once=True),
        around=m.half),
    situation("autocast in the forward, switched off around", make=lambda: m.Amp(once=True),
        around=partial(torch.autocast, "cpu", enabled=False)),
    situation("the same, test before backward", make=lambda: m.Amp(once=True), around=m.half,
        pending=True),
    situation("`parametrize.cached()` around the step", around=parametrize.cached,
        make=lambda: m.parametrized(parametrizations.weight_norm)),
    situation("the same, test before backward", around=parametrize.cached, pending=True,
        make=lambda: m.parametrized(parametrizations.weight_norm)),
    situation("`cached()` in the forward and around the step", make=m.CachedInside,
        around=parametrize.cached),
    situation("test before backward", pending=True),
    situation("the same, buffers written", make=m.Written, pending=True),
    situation("the same, a buffer that backward needs", make=m.WrittenAndSaved, pending=True),
    situation("the same, tied embeddings with `max_norm`", pending=True,
        make=lambda: m.Words(max_norm=0.5)),
    situation("the same, checkpointed", make=Checkpointed, pending=True),
    situation("anomaly detection", around=partial(torch.autograd.set_detect_anomaly, mode=True)),
    situation("hooks on saved tensors", around=lambda: saved_tensors_hooks(
        lambda t: t.clone(), lambda t: t)),
    situation("deterministic algorithms", around=deterministic),
    situation("default device set", around=lambda: torch.device("cpu")),
    situation("buffers that move in evaluation", make=Counting),
]  # fmt: skip
GROUPS = {
    "No `nn.Module`": NOT_A_MODULE,
    "Parts next to the model": PARTS,
    "Modes, buffers and random numbers": ORDINARY,
    "Architectures": ARCHITECTURES,
    "Tensors": TENSORS,
    "Evaluation data": DATA,
    "Loops": LOOPS,
}
ZOO = [Row(group, *row) for group, rows in GROUPS.items() for row in rows]


PAGE = """# Models and training loops on which the evaluator is tested

The law: **training computes the same bits with and without the evaluator, and every recorded score
equals that of a separate process that evaluates the same weights.** Each row below is tested with
the executor of each column: `pytest tests/test_zoo.py` (`-m slow` runs the rest). On a GPU, `pytest
tests/test_cuda_zoo.py` tests the same rows with CUDA graphs and on a second stream. This page is
printed from the table in the tests (`python -m tests.zoo_table > docs/zoo.md`), and a test compares
the two.

- **same bits**: the law holds. An executor that does not support a model (a worker and sparse
  tensors, for example) warns once and evaluates it inline.
- **refused**: the evaluator raises an error before the first training step; the last column quotes
  it.
- **limit**: the last column says what differs; [evaluator.md](evaluator.md) explains it.
"""


def page() -> str:
    """Return the table as a page of the docs."""
    columns = list(EXECUTORS)
    parts = [PAGE.rstrip()]
    for group in GROUPS:
        parts += [
            "",
            f"## {group}",
            "",
            "| model or situation | " + " | ".join(columns) + " | why |",
        ]
        parts.append("|---" * (len(columns) + 2) + "|")
        for row_ in ZOO:
            if row_.group == group:
                cells = [row_.name, *map(row_.verdict, columns), row_.why]
                parts.append("| " + " | ".join(cells) + " |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
