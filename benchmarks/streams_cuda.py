"""What a GPU can do with several seeds at once: steps and evaluations captured by hand.

The work of watching.py with momentum and normalisation, every seed on a CUDA stream of its own;
no record, and rows that are the same at every step.

python benchmarks/streams_cuda.py      # milliseconds per iteration and seed, as a Markdown table
"""

from __future__ import annotations

import time

import torch
from torch.nn.functional import cross_entropy, linear

ROWS, TESTED, ITERATIONS, TURN = 512, 3000, 480, 32
PRECISIONS = ("float32", "tf32", "float16")


class Data:
    """Random images as bytes and labels, to train on and to test on."""

    def __init__(self) -> None:
        self.x = torch.randint(0, 255, (60000, 784), dtype=torch.uint8, device="cuda")
        self.y = torch.randint(0, 10, (60000,), device="cuda")
        self.test_x = torch.randn(TESTED, 784, device="cuda")
        self.test_y = torch.randint(0, 10, (TESTED,), device="cuda")
        self.half_x = self.test_x.half()


class Seed:
    """A model whose step, evaluation and both are captured as CUDA graphs."""

    def __init__(self, data: Data, precision: str) -> None:
        self._data, self._precision = data, precision
        sizes = ((784, 400), (400, 400), (400, 10))
        layers = [layer for size in sizes for layer in (torch.nn.Linear(*size), torch.nn.ReLU())]
        self._model = torch.nn.Sequential(*layers[:-1]).cuda()
        weights = self._model.parameters()
        self._optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9, fused=True)
        self._hits = torch.zeros(TESTED, dtype=torch.bool, device="cuda")
        self.rows = torch.randint(0, 60000, (ROWS,), device="cuda")
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._iterate()
        torch.cuda.synchronize()
        self.graphs = {}
        for name, work in (
            ("step", self._step),
            ("evaluation", self._evaluate),
            ("both", self._iterate),
        ):
            self.graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[name], stream=self.stream):
                work()

    def _iterate(self) -> None:
        self._step()
        self._evaluate()

    def _step(self) -> None:
        x = self._data.x.index_select(0, self.rows).float().mul_(1 / 255).add_(-0.1)
        y, new = self._data.y[self.rows], ROWS // 2
        scores = self._model(x)
        loss = 0.3 * cross_entropy(scores[:new], y[:new]) + 0.7 * cross_entropy(
            scores[new:], y[new:]
        )
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

    @torch.no_grad()
    def _evaluate(self) -> None:
        if self._precision == "float16":
            x, weights = self._data.half_x, [p.half() for p in self._model.parameters()]
            for k in range(0, len(weights), 2):
                x = linear(x.relu() if k else x, *weights[k : k + 2])
        else:
            torch.backends.cuda.matmul.allow_tf32 = self._precision == "tf32"
            x = self._model(self._data.test_x)
            torch.backends.cuda.matmul.allow_tf32 = False
        torch.eq(x.argmax(1), self._data.test_y, out=self._hits)


def measure(seeds: list[Seed], work: str) -> float:
    """Return the milliseconds per iteration and seed, in turns, with a copy of rows before each."""
    on_host = torch.randint(0, 60000, (ROWS,))
    for _ in range(2):  # the first time warms up
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(0, ITERATIONS, TURN):
            for seed in seeds:
                with torch.cuda.stream(seed.stream):
                    for _ in range(TURN):
                        seed.rows.copy_(on_host, non_blocking=True)
                        seed.graphs[work].replay()
        torch.cuda.synchronize()
        spent = time.perf_counter() - start
    return 1000 * spent / (ITERATIONS * len(seeds))


def main() -> None:
    """Print the table."""
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("| evaluation in | seeds | step | evaluation | both |\n|---|---:|---:|---:|---:|")
    data = Data()
    for precision in PRECISIONS:
        for count in (1, 5):
            seeds = [Seed(data, precision) for _ in range(count)]
            cells = [f"{measure(seeds, work):.3f}" for work in ("step", "evaluation", "both")]
            print(f"| {precision} | {count} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
