"""What watching costs on a GPU: the work of watching.py, and a convolutional net.

python benchmarks/watching_cuda.py       # prints Markdown tables: executors, where the host's time
                                         # goes, precisions
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from watching import BATCH, TASKS, TESTED, Work, make_model, make_work

import perdure
from perdure.evaluation.engine.cuda_graph import CudaGraph, EvalGraph
from perdure.evaluation.engine.engine import Engine
from perdure.evaluation.engine.result_ring import ResultBlock, ResultRing
from perdure.evaluation.state.preserve import ModelParts
from perdure.evaluation.tracker import RunTracker

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURED_BY_HAND = "evaluation by hand, captured, results stay on the GPU"
PLACES: dict[str, dict[str, Any]] = {
    "evaluation by hand, eager": {},
    CAPTURED_BY_HAND: {},
    "Evaluator, never due": {"every": 10**9},
    "Evaluator, inline (captured)": {"executor": perdure.Inline()},
    "Evaluator, another stream": {"executor": perdure.Worker()},
    "Evaluator, another stream, latest": {"executor": perdure.Worker(mode="latest")},
    "Evaluator, inline, screened": {"executor": perdure.Inline(precision="screened")},
}


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        same = stride == 1 and inside == outside
        self.short = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return torch.relu(out + self.short(x))


def make_resnet() -> nn.Module:
    """Return a ResNet-18 with 20 filters for 28x28 images in a row of 784 pixels."""
    torch.manual_seed(0)
    widths = [20, 20, 40, 40, 80, 80, 160, 160]
    blocks = [Block(a, b, 1 + (b > a)) for a, b in zip([20, *widths[:-1]], widths, strict=True)]
    stem = [nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 20, 3, 1, 1, bias=False), nn.BatchNorm2d(20)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10)]
    return nn.Sequential(*stem, nn.ReLU(), *blocks, *end)


def by_hand(model: nn.Module, work: Work) -> Callable[[int], list[float]]:
    def evaluate(seen: int) -> list[float]:
        n = seen * TESTED
        model.eval()
        with torch.no_grad():
            right = model(work.test_x[:n]).argmax(1) == work.test_y[:n]
        model.train()
        return [k / TESTED for k in right.view(seen, TESTED).sum(1).tolist()]

    return evaluate


def captured_by_hand(model: nn.Module, work: Work) -> Callable[[int], object]:
    graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def evaluate(seen: int) -> None:
        n = seen * TESTED
        if n not in graphs:
            graphs[n] = torch.cuda.CUDAGraph()
            right = torch.zeros(n, dtype=torch.bool, device="cuda")
            with torch.cuda.graph(graphs[n]), torch.no_grad():
                torch.eq(model(work.test_x[:n]).argmax(1), work.test_y[:n], out=right)
        graphs[n].replay()

    return evaluate


CHUNK = 25  # iterations


def time_task(
    model: nn.Module, optimizer: Any, work: Work, plan: torch.Tensor, after: Callable[[], object]
) -> tuple[float, float]:
    """Return the seconds per iteration with and without evaluation, in turns: hosts drift."""
    spent: tuple[list[float], list[float]] = ([], [])
    for k, chunk in enumerate(plan.split(CHUNK)):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for rows in chunk:
            optimizer.zero_grad()
            cross_entropy(model(work.train_x[rows]), work.train_y[rows]).backward()
            optimizer.step()
            if k % 2 == 0:
                after()
        torch.cuda.synchronize()
        spent[k % 2].append((time.perf_counter() - start) / len(chunk))
    return statistics.fmean(spent[0]), statistics.fmean(spent[1])


def run(make: Callable[[], nn.Module], work: Work, name: str) -> list[tuple[float, float]]:
    """Return the milliseconds per iteration of each task, with and without evaluation."""
    model, place = make().cuda(), PLACES[name]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    by = captured_by_hand if name == CAPTURED_BY_HAND else by_hand
    evaluator, evaluate = None, by(model, work)
    if place:
        rows = [slice(k * TESTED, (k + 1) * TESTED) for k in range(TASKS)]
        data = {f"task {k}": (work.test_x[at], work.test_y[at]) for k, at in enumerate(rows)}
        evaluator = perdure.Evaluator(data, count_flops=False, **place)
    taken = []
    for k, plan in enumerate(work.plans):
        after: Callable[[], object] = partial(evaluate, k + 1)
        if evaluator is not None:
            after = partial(evaluator.step, model)
        with evaluator.task(f"task {k}") if evaluator else nullcontext():
            time_task(model, optimizer, work, plan[: 2 * CHUNK], after)  # warms up
            with_it, without = time_task(model, optimizer, work, plan, after)
            taken.append((1000 * with_it, 1000 * without))
    if evaluator is not None:
        evaluator.close()
    return taken


PARTS = {  # of `Evaluator.step`
    "the parts of the model are found": (ModelParts, "combine"),
    "its tensors are where they were": (EvalGraph, "fits"),
    "the graph is launched": (CudaGraph, "replay"),
    "whether results have arrived": (Engine, "collect_here"),
    "results are copied, 32 at a time": (ResultRing, "copy"),
    "copied results are read": (ResultBlock, "results"),
    "results are recorded": (RunTracker, "_write_results"),
    "eager evaluations: two at first, verifications": (Engine, "_values"),
}


def time_parts(work: Work) -> None:
    """Print what the host does in a step of an evaluator, the time of nested parts left out."""
    spent, nested = dict.fromkeys(PARTS, 0.0), [0.0]

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nested.append(0.0)
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                seconds = time.perf_counter() - start
                spent[part] += seconds - nested.pop()
                nested[-1] += seconds

        return call

    originals = {part: getattr(owner, method) for part, (owner, method) in PARTS.items()}
    for part, (owner, method) in PARTS.items():
        setattr(owner, method, timed(part, originals[part]))
    model = make_model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    rows = [slice(k * TESTED, (k + 1) * TESTED) for k in range(TASKS)]
    data = [(work.test_x[at], work.test_y[at]) for at in rows]
    whole, count, kept = 0, 0, dict(spent)
    with perdure.Evaluator(data, count_flops=False) as evaluator:
        for task, plan in enumerate(work.plans):
            evaluator.begin(task, model)
            spent.update(kept)
            for chosen in plan:
                optimizer.zero_grad()
                cross_entropy(model(work.train_x[chosen]), work.train_y[chosen]).backward()
                optimizer.step()
                start = time.perf_counter_ns()
                evaluator.step(model)
                whole += time.perf_counter_ns() - start
            count += len(plan)
            kept = dict(spent)  # of steps, without the beginning and the end of tasks
            evaluator.end()
    spent.update(kept)
    for part, (owner, method) in PARTS.items():
        setattr(owner, method, originals[part])
    print("\n| part of a step of the evaluator, on the host | microseconds |\n|---|---:|")
    for part, seconds in spent.items():
        print(f"| {part} | {1e6 * seconds / count:.1f} |")
    rest = whole / 1000 / count - 1e6 * sum(spent.values()) / count
    print(f"| the rest | {rest:.1f} |\n| all | {whole / 1000 / count:.1f} |", flush=True)


PRECISIONS = ("float32", "auto", "tf32", "float16", "bfloat16")


def time_precisions(work: Work, steps: int = 100) -> None:
    """Print what an evaluation of all tasks costs in each precision, and how it predicts."""
    print("\n| evaluation of 5 x 1000 images | ms | predictions as float32 |\n|---|---:|---:|")
    plain: list[Any] = []
    collect: Any = Engine.collect_here
    for precision in PRECISIONS:
        model, values = make_resnet().cuda(), list[Any]()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)

        def collect_all(engine: Engine, *, wait: bool = False, values: Any = values) -> Any:
            done = collect(engine, wait=wait)
            values += [result.values for result in done]
            return done

        Engine.collect_here = collect_all  # type: ignore[assignment, method-assign]
        data = {"all": (work.test_x, work.test_y)}
        executor = perdure.Inline(precision=precision)  # type: ignore[arg-type]
        options: dict[str, Any] = {"executor": executor, "count_flops": False, "subset": None}
        spent = []
        with perdure.Evaluator(data, **options) as evaluator, evaluator.task("all", model):
            for rows in work.plans[0][:steps]:
                optimizer.zero_grad()
                cross_entropy(model(work.train_x[rows]), work.train_y[rows]).backward()
                optimizer.step()
                torch.cuda.synchronize()
                start = time.perf_counter()
                evaluator.step(model)
                torch.cuda.synchronize()
                spent.append(1000 * (time.perf_counter() - start))
        Engine.collect_here = collect  # type: ignore[method-assign]
        plain = plain or values
        equal = statistics.fmean((a == b).mean() for a, b in zip(values, plain, strict=True))
        print(f"| {precision} | {statistics.median(spent):.1f} | {equal:.5f} |", flush=True)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "MLP 400-400": make_model,
    "reduced ResNet-18": make_resnet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="What watching costs on a GPU.")
    parser.add_argument("--iterations", type=int, default=400, help="iterations per task")
    parser.add_argument("--models", default=",".join(MODELS), help="which of them")
    args = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    print(f"{args.iterations} iterations per task, batch {BATCH} and as many replayed\n")
    print("| model | variant | with, ms | without, ms | added, ms |\n|---|---|---:|---:|---:|")
    on_cpu = make_work(args.iterations)
    x, y, test_x, test_y = (tensor.cuda() for tensor in on_cpu[:4])
    work = Work(x, y, test_x, test_y, [plan.cuda() for plan in on_cpu.plans])
    for model in args.models.split(","):
        for name in PLACES:
            times = run(MODELS[model], work, name)
            with_it, without = (statistics.fmean(column) for column in zip(*times, strict=True))
            added = f"{with_it:.3f} | {without:.3f} | {with_it - without:.3f}"
            print(f"| {model} | {name} | {added} |", flush=True)
    time_parts(work)
    torch.backends.cudnn.deterministic = True
    time_precisions(work)


if __name__ == "__main__":
    main()
