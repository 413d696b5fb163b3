"""Three tasks of digits in JAX and Flax, recorded without PyTorch: python examples/with_jax.py."""

import sys

import jax
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import perdure

rng = np.random.default_rng(0)
x, y = load_digits(return_X_y=True)
x, test = np.float32(x / 16), rng.random(len(y)) < 0.3
tasks = {f"digits {k}-{k + 2}": (y >= k) & (y <= k + 2) for k in (0, 3, 6)}
rngs = nnx.Rngs(0)
model = nnx.Sequential(nnx.Linear(64, 100, rngs=rngs), jax.nn.relu, nnx.Linear(100, 9, rngs=rngs))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
loss = optax.softmax_cross_entropy_with_integer_labels
is_correct = nnx.jit(lambda model, x, y: model(x).argmax(-1) == y)


@nnx.jit
def train_step(model, optimizer, x, y):
    optimizer.update(model, nnx.grad(lambda model: loss(model(x), y).mean())(model))


step, folder = 0, sys.argv[1] if len(sys.argv) > 1 else "runs/jax"
with perdure.Log(folder, overwrite=True, config={"seed": 0}) as log:
    for number, (task, of) in enumerate(tasks.items(), start=1):
        batches = rng.permutation(np.flatnonzero(of & ~test))[:340].reshape(-1, 20)
        for batch in batches:
            train_step(model, optimizer, x[batch], y[batch])
            step += 1
            for name in [*tasks][:number]:  # the tasks seen so far
                rows = tasks[name] & test
                log.add(step, task, name, correct=is_correct(model, x[rows], y[rows]), kind="full")
print(perdure.score(folder))
