"""What evaluating while training costs, compared with a minimal loop written by hand.

The work is Split MNIST with replay, evaluated after every iteration (De Lange et al. 2023): an MLP
784-400-400-10, SGD, 256 new and 256 replayed rows, five tasks, and 1000 fixed rows of every task
seen so far. The rows are synthetic, in MNIST's shape; only the cost of half precision depends on
them.

python benchmarks/watching.py            # prints a Markdown table
python benchmarks/watching.py --only floor --iterations 30 --repeats 1
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TASKS, CLASSES, PIXELS, HIDDEN = 5, 10, 784, 400
BATCH = 256  # new rows per iteration, and as many replayed ones from the second task on
ROWS, KEPT, TESTED = 12_000, 200, 1000  # per task: training rows, replayed rows, test rows
CHUNK = 500  # rows per forward pass: 250 or fewer are slower, 1000 or more are not faster
LR = 0.01
seconds = time.perf_counter  # or CPU time, of one thread


class Work(NamedTuple):
    """The rows of all tasks, and which of them each iteration trains on."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    plans: list[Tensor]  # per task: iterations x batch


class Variant(NamedTuple):
    """One way to do the work, in the parts that are timed."""

    train: Callable[[Tensor], object]  # takes the rows of the batch
    evaluate: Callable[[int], object]  # takes the number of tasks seen
    scores: Callable[[], Sequence[float]]  # of the last evaluation, once it is settled
    task: Callable[[int], AbstractContextManager[object]] = lambda _: nullcontext()
    settle: Callable[[], object] = lambda: (
        None
    )  # waits for evaluations that are still running elsewhere
    close: Callable[[], object] = lambda: None


class Cost(NamedTuple):
    """Milliseconds an iteration."""

    train: float
    evaluate: float
    total: float


Samples = list[list[tuple[float, float]]]  # for each task: (train, evaluate) in seconds


def make_work(iterations: int, seed: int = 0) -> Work:
    """Return two classes a task, each a fixed pattern under noise, and the index plans."""
    rng = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, PIXELS, generator=rng)

    def rows(count: int) -> tuple[Tensor, Tensor]:
        first = torch.arange(TASKS).repeat_interleave(count) * 2
        y = first + torch.randint(2, first.shape, generator=rng)
        noise = torch.randn(len(y), PIXELS, generator=rng)
        return noise.add_(patterns[y], alpha=0.3), y

    plans = []
    for k in range(TASKS):
        epochs = -(-iterations * BATCH // ROWS)
        new = torch.cat([torch.randperm(ROWS, generator=rng) for _ in range(epochs)])
        plan = new[: iterations * BATCH].view(iterations, BATCH) + k * ROWS
        if k:
            task = torch.randint(k, plan.shape, generator=rng)
            old = task * ROWS + torch.randint(KEPT, plan.shape, generator=rng)
            plan = torch.cat([plan, old], 1)
        plans.append(plan)
    return Work(*rows(ROWS), *rows(TESTED), plans)


def make_model() -> nn.Sequential:
    """Return the same untrained network at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(PIXELS, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, CLASSES),
        )


def hand_step(model: nn.Module, work: Work) -> Callable[[Tensor], None]:
    """Return a step of SGD on cross-entropy, without autograd, that allocates nothing.

    A weight's gradient is never stored: its matrix product is added to the weight.
    """
    w1, b1, w2, b2, w3, b3 = (p.detach() for p in model.parameters())
    one_hot = F.one_hot(work.train_y, CLASSES).float()
    relu_backward = torch.ops.aten.threshold_backward.grad_input
    buffers = {
        n: [torch.empty(n, width) for width in (PIXELS, *[HIDDEN] * 4, CLASSES, CLASSES)]
        for n in {plan.shape[1] for plan in work.plans}
    }
    ones = torch.ones(max(buffers))

    @torch.inference_mode()
    def step(rows: Tensor) -> None:
        n = len(rows)
        x, h1, h2, d1, d2, out, y = buffers[n]
        torch.index_select(work.train_x, 0, rows, out=x)
        torch.index_select(one_hot, 0, rows, out=y)
        torch.addmm(b1, x, w1.t(), out=h1).relu_()
        torch.addmm(b2, h1, w2.t(), out=h2).relu_()
        torch.addmm(b3, h2, w3.t(), out=out)
        torch.softmax(out, 1, out=out).sub_(y)
        relu_backward(torch.mm(out, w3, out=d2), h2, 0, grad_input=d2)
        relu_backward(torch.mm(d2, w2, out=d1), h1, 0, grad_input=d1)
        for w, b, d, h in ((w3, b3, out, h2), (w2, b2, d2, h1), (w1, b1, d1, x)):
            w.addmm_(d.t(), h, alpha=-LR / n)
            b.addmv_(d.t(), ones[:n], alpha=-LR / n)

    return step


def hand_evaluation(model: nn.Module, work: Work) -> Callable[[int], list[float]]:
    """Return a function that tests the seen tasks, chunk after chunk, in memory it reuses."""
    w1, b1, w2, b2, w3, b3 = (p.detach() for p in model.parameters())
    h1, h2 = torch.empty(CHUNK, HIDDEN), torch.empty(CHUNK, HIDDEN)
    logits = torch.empty(len(work.test_x), CLASSES)
    predicted = torch.empty_like(work.test_y)
    right = torch.empty_like(work.test_y, dtype=torch.bool)
    chunks = list(
        zip(work.test_x.view(-1, CHUNK, PIXELS), logits.view(-1, CHUNK, CLASSES), strict=True)
    )

    @torch.inference_mode()
    def evaluate(seen: int) -> list[float]:
        n = seen * TESTED
        for x, out in chunks[: n // CHUNK]:
            torch.addmm(b1, x, w1.t(), out=h1).relu_()
            torch.addmm(b2, h1, w2.t(), out=h2).relu_()
            torch.addmm(b3, h2, w3.t(), out=out)
        torch.argmax(logits[:n], 1, out=predicted[:n])
        torch.eq(predicted[:n], work.test_y[:n], out=right[:n])
        return [hits / TESTED for hits in right[:n].view(seen, TESTED).sum(1).tolist()]

    return evaluate


def by_hand(
    train: Callable[[Tensor], object], evaluate: Callable[[int], Sequence[float]]
) -> Variant:
    """Return a variant whose evaluation returns its scores."""
    last: list[float] = []

    def keep(seen: int) -> None:
        last[:] = evaluate(seen)

    return Variant(train, keep, lambda: last)


def floor(work: Work) -> Variant:
    model = make_model()
    return by_hand(hand_step(model, work), hand_evaluation(model, work))


def plain(work: Work) -> Variant:
    """Return what one writes first: autograd, torch.optim and a call of the model for each task."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def train(rows: Tensor) -> None:
        loss = F.cross_entropy(model(work.train_x[rows]), work.train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return by_hand(train, evaluate_by_task(model, work))


def evaluate_by_task(model: nn.Module, work: Work) -> Callable[[int], list[float]]:
    """Return a function that calls the model on the test rows of each seen task."""
    tests = by_task(work)

    @torch.no_grad()
    def evaluate(seen: int) -> list[float]:
        return [(model(x).argmax(1) == y).float().mean().item() for x, y in tests[:seen]]

    return evaluate


def by_task(work: Work) -> list[tuple[Tensor, Tensor]]:
    """Return each task's test rows and labels."""
    return list(zip(work.test_x.view(TASKS, TESTED, -1), work.test_y.view(TASKS, -1), strict=True))


def watched(work: Work, *, worker: bool = False, screened: bool = False) -> Variant:
    """Return the floor's training step, watched by an Evaluator that keeps a record.

    It counts no operations: that would slow down the other variants between its own blocks.
    """
    # Imported here: the environments of the peers have PyTorch, but not perdure.
    from perdure import Evaluator, Inline, Worker

    model, folder = make_model(), TemporaryDirectory()
    executor = (Worker if worker else Inline)(precision="screened" if screened else "auto")
    tests = {f"task {k}": test for k, test in enumerate(by_task(work))}
    evaluator = Evaluator(
        tests, subset=TESTED, record=folder.name, count_flops=False, executor=executor
    )

    def close() -> None:
        evaluator.close()
        folder.cleanup()

    return Variant(
        train=hand_step(model, work),
        evaluate=lambda _: evaluator.step(model),
        scores=lambda: [task.score or 0.0 for task in evaluator.live.tasks.values()],
        task=lambda k: evaluator.task(f"task {k}"),
        settle=evaluator.flush if worker else lambda: None,
        close=close,
    )


VARIANTS: dict[str, Callable[[Work], Variant]] = {
    "floor": floor,
    "plain autograd loop": plain,
    "Evaluator, inline": watched,
    "Evaluator, inline, half precision": partial(watched, screened=True),
    "Evaluator, worker": partial(watched, worker=True),
}


def run_block(variant: Variant, plan: Tensor, seen: int) -> tuple[list[tuple[float, float]], float]:
    """Return (train, evaluate) in seconds for each iteration, and the mean accuracy at the end."""
    samples = []
    for rows in plan:
        start = seconds()
        variant.train(rows)
        between = seconds()
        variant.evaluate(seen)
        samples.append((between - start, seconds() - between))
    start = seconds()
    variant.settle()
    late = (seconds() - start) / len(plan)
    return [(t, e + late) for t, e in samples], statistics.fmean(variant.scores())


def run_all(names: Sequence[str], work: Work, block: int) -> tuple[dict[str, Samples], list[float]]:
    """Return every variant's samples, taken block by block in turn, and a matmul's seconds.

    A block keeps a variant's caches warm, as its own loop would; the turns share out the noise.
    """
    variants = {name: VARIANTS[name](work) for name in names}
    samples: dict[str, Samples] = {name: [[] for _ in range(TASKS)] for name in names}
    matmul: list[float] = []
    for k, plan in enumerate(work.plans):
        ends = {}
        with ExitStack() as stack:
            for variant in variants.values():
                stack.enter_context(variant.task(k))
            for turn, part in enumerate(torch.split(plan, block)):
                for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
                    taken, ends[name] = run_block(variants[name], part, k + 1)
                    samples[name][k] += taken
                matmul += time_matmul(work)
        if max(ends.values()) - min(ends.values()) > 0.02:
            raise RuntimeError(f"the variants did different work: accuracies {ends} in task {k}")
    for variant in variants.values():
        variant.close()
    return samples, matmul


def time_matmul(work: Work) -> list[float]:
    """Return the seconds of the first layer's product for each chunk of the test rows."""
    w, out, taken = torch.randn(HIDDEN, PIXELS), torch.empty(CHUNK, HIDDEN), []
    for x in work.test_x.view(-1, CHUNK, PIXELS):
        start = seconds()
        torch.mm(x, w.t(), out=out)
        taken.append(seconds() - start)
    return taken


def matmul_limit(seconds: float) -> Cost:
    """Return the cost of the work's matrix products alone, if all ran as fast as this one."""
    weights = [PIXELS * HIDDEN, HIDDEN * HIDDEN, HIDDEN * CLASSES]
    each = seconds / (CHUNK * weights[0]) * 1000  # milliseconds a row a weight
    batch = statistics.fmean(BATCH * (1 + (k > 0)) for k in range(TASKS))
    train = batch * (3 * sum(weights) - weights[0]) * each  # forward, weights, inputs but the first
    evaluate = statistics.fmean(range(1, TASKS + 1)) * TESTED * sum(weights) * each
    return Cost(train, evaluate, train + evaluate)


def cost(samples: Samples) -> Cost:
    """Return the mean over tasks of the medians over a task's iterations."""

    def mean_of_medians(part: Callable[[tuple[float, float]], float]) -> float:
        return 1000 * statistics.fmean(statistics.median(map(part, task)) for task in samples)

    return Cost(*map(mean_of_medians, (lambda s: s[0], lambda s: s[1], sum)))


def pool(repeats: Sequence[Samples]) -> Samples:
    """Return each task's samples of all repeats."""
    return [list(chain.from_iterable(tasks)) for tasks in zip(*repeats, strict=True)]


def table_row(name: str, spent: Cost, floor_total: float) -> str:
    cells = (f"{ms:.1f}" for ms in spent)
    return f"| {name} | {' | '.join(cells)} | {spent.total / floor_total:.2f} |"


TABLE_HEAD = (
    "| variant | train ms | evaluate ms | total ms | against the floor |\n|---|---:|---:|---:|---:|"
)


def busy_seconds() -> tuple[float, float]:
    """Return the processor seconds this process and the whole machine have used so far."""
    own = sum(os.times()[:4])
    try:
        fields = [int(ticks) for ticks in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    except OSError:
        return own, float("nan")
    idle = fields[3] + fields[4]
    return own, (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


@contextmanager
def company() -> Iterator[list[float]]:
    """Yield a list that receives how many cores other processes kept busy meanwhile."""
    cores: list[float] = []
    (own, everyone), start = busy_seconds(), time.perf_counter()
    yield cores
    ours, all_ = busy_seconds()
    cores.append(max(all_ - everyone - (ours - own), 0) / (time.perf_counter() - start))


def company_note(cores: Sequence[float]) -> str:
    """Return how much else ran; two threads that wait for each other suffer from little."""
    doubt = "" if cores[0] < 0.1 else ": too many to trust these numbers"
    return f"other processes kept {cores[0]:.2f} cores busy{doubt}"


CPU_TIME = "measure CPU time, with one thread, on a machine that is busy with other work"


def use_cpu_time(wanted: bool) -> None:
    """Measure CPU time instead of the time on the clock; a worker's is not part of it."""
    global seconds
    seconds = time.process_time if wanted else time.perf_counter


def main() -> None:
    from bench import _processor  # here, as it imports perdure

    parser = argparse.ArgumentParser(description="What watching a training loop costs.")
    parser.add_argument("--iterations", type=int, default=60, help="iterations per task")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--block", type=int, default=20, help="iterations before the next's turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help=CPU_TIME)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, help="in addition to the floor")
    args = parser.parse_args()
    use_cpu_time(args.cpu_time)
    args.threads = 1 if args.cpu_time else args.threads
    torch.set_num_threads(args.threads)
    names = [name for name in VARIANTS if name == "floor" or name in (args.only or VARIANTS)]
    work = make_work(args.iterations)
    with company() as others:
        results = [run_all(names, work, args.block) for _ in range(args.repeats)]
    runs, matmuls = zip(*results, strict=True)

    print(f"PyTorch {torch.__version__}, Python {platform.python_version()}")
    print(f"{_processor()}, {os.cpu_count()} cores, {args.threads} threads, {platform.system()}")
    print(
        f"{args.iterations} iterations per task, repeats: {args.repeats}; {company_note(others)}"
        f"{'; CPU time' if args.cpu_time else ''}\n"
    )
    print(TABLE_HEAD)
    pooled = {name: cost(pool([run[name] for run in runs])) for name in names}
    matmul = statistics.median(chain.from_iterable(matmuls))
    rate = 2e-9 * CHUNK * PIXELS * HIDDEN / matmul
    limit = f"matrix products alone, at {rate:.0f} GFLOP/s"
    for name, spent in {limit: matmul_limit(matmul), **pooled}.items():
        print(table_row(name, spent, pooled["floor"].total))
    totals = [cost(run["floor"]).total for run in runs]
    print(f"\nthe floor, repeat by repeat: {', '.join(f'{ms:.1f}' for ms in totals)} ms")


if __name__ == "__main__":
    main()
