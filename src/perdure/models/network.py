"""A network in two parts, body and head, and how it is built from what a factory returns."""

from __future__ import annotations

import inspect
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from .._extras import import_user_attribute
from ..evaluation.state.preserve import has_lazy_parameters, preserve_state
from ..record import InputError
from .registry import MODELS, check_input_shape, check_integer, check_integers, unknown_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["HIDDEN", "Network", "build", "find_factory"]

# The score of a hidden class. A power of two is exact in every float format. It is finite, so that
# its softmax is 0 but the loss stays a number even if every class is hidden.
HIDDEN = -32768.0
INPUT_SEED = 0  # of the random inputs that a new network is tried with


class Network(nn.Module):
    """Returns scores of all classes per example: `head(body(x))`, some of them hidden.

    Args:
        body: the layers before the head.
        head: a layer over all classes, or an `nn.ModuleList` with one `nn.Linear` per task, whose
            outputs are concatenated in the order of the tasks.
        outputs: the number of classes.
        mask_unseen: hide the classes that were not opened yet.

    Example:
        >>> heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 1)])
        >>> network = Network(nn.Flatten(), heads, outputs=3)
        >>> network(torch.zeros(5, 1, 2, 2), 1)[0, :2]
        tensor([-32768., -32768.], grad_fn=<SliceBackward0>)
    """

    body: nn.Module
    head: nn.Module
    unseen: Tensor | None  # per class: True until it is opened
    opened: Tensor | None  # per task with its own head: True once it is opened
    task_of: Tensor | None  # per class: the task whose head computes its score

    def __init__(
        self, body: nn.Module, head: nn.Module, outputs: int, *, mask_unseen: bool = False
    ) -> None:
        super().__init__()
        self.body, self.head, self.outputs = body, head, outputs
        sizes = [part.out_features for part in _heads(head)]
        assert not sizes or sum(sizes) == outputs
        self._ends = list(accumulate(sizes))
        self._open: list[int] = []  # the tasks in `opened`, without waiting for the device
        unseen = torch.ones(outputs, dtype=torch.bool) if mask_unseen else None
        opened = torch.zeros(len(sizes), dtype=torch.bool) if sizes else None
        tasks = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)) if sizes else None
        self.register_buffer("unseen", unseen)
        self.register_buffer("opened", opened)
        self.register_buffer("task_of", tasks, persistent=False)
        self.register_load_state_dict_post_hook(Network._restore_open_tasks)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, task: int | Tensor | None = None) -> Tensor:
        """Return one score per example and class.

        Args:
            x: the images.
            task: used only with one head per task. A number computes the head of that task alone;
                the others get no gradient, not even zero. A tensor with the task of each example
                computes all heads for all examples and hides the classes of other tasks, without
                waiting for the device. If gradients are recorded, only heads opened so far are
                computed, and an example of another task gets hidden scores throughout.
        """
        return self.classify(self.body(x), task)

    def classify(self, features: Tensor, task: int | Tensor | None = None) -> Tensor:
        """Return the scores for features of the body, so that several heads share one pass."""
        scores: Tensor
        if self.task_of is None:
            scores = self.head(features)
        elif isinstance(task, Tensor):
            scores = self._classify_each(features, task)
        else:
            scores = self._classify_task(features, task)
        return scores if self.unseen is None else scores.masked_fill(self.unseen, HIDDEN)

    def open(self, task: int, classes: Sequence[int]) -> None:
        """Make the classes of a task available; repeating it changes nothing."""
        task = check_integer("open: task", task, 0)
        named = [check_integer("open: a class", number, 0) for number in classes]
        allowed = range(self.outputs) if self.opened is None else self.columns(task)
        if wrong := [c for c in named if c not in allowed]:
            raise InputError(
                f"open: task {task} has class {wrong[0]}, expected classes from {allowed.start}"
                f" to {allowed.stop - 1}: number them in the order of the tasks"
            )
        if self.unseen is not None:
            self.unseen[named] = False
        if self.opened is not None:
            self.opened[task] = True
            self._open = sorted({*self._open, task})

    def columns(self, task: int) -> range:
        """Return the classes of a task that has its own head."""
        if not 0 <= task < len(self._ends):
            raise InputError(f"task is {task}, expected 0 to {len(self._ends) - 1}, one per head")
        return range(self._ends[task - 1] if task else 0, self._ends[task])

    def _classify_task(self, features: Tensor, task: int | None) -> Tensor:
        """Return scores if all examples belong to one task."""
        if task is None:
            raise InputError(
                "task is None, expected the task of the examples: each task has its own head"
            )
        columns = self.columns(task)
        scores: Tensor = _heads(self.head)[task](features)
        around = (columns.start, self.outputs - columns.stop)
        return functional.pad(scores, around, value=HIDDEN)

    def _classify_each(self, features: Tensor, tasks: Tensor) -> Tensor:
        """Return scores if each example has its own task."""
        if tasks.shape != features.shape[:1]:
            raise InputError(
                f"task has shape {tuple(tasks.shape)}, expected one task for each of"
                f" {len(features)} examples"
            )
        # All heads without gradients: copies for evaluation share the tensors, but not `_open`.
        tasks_to_compute = self._open if torch.is_grad_enabled() else range(len(self._ends))
        if not tasks_to_compute:
            raise InputError("no task is open, expected open(task, classes) before training")
        heads = _heads(self.head)
        computed = {task: heads[task](features) for task in tasks_to_compute}
        like = computed[tasks_to_compute[0]]  # with autocast its type differs from the features'
        scores = [
            computed[task]
            if task in computed
            else like.new_full((len(like), head.out_features), HIDDEN)
            for task, head in enumerate(heads)
        ]
        assert self.task_of is not None
        return torch.cat(scores, 1).masked_fill(self.task_of.ne(tasks.unsqueeze(1)), HIDDEN)

    def _restore_open_tasks(self, _incompatible_keys: object) -> None:
        """Update the open tasks after `load_state_dict`, which calls this as a hook."""
        if self.opened is not None:
            self._open = [task for task, is_open in enumerate(self.opened.tolist()) if is_open]


def _heads(head: nn.Module) -> list[nn.Linear]:
    """Return the heads of the tasks; empty if there is a shared head."""
    return list(head) if isinstance(head, nn.ModuleList) else []  # type: ignore[arg-type]


def build(
    name: str,
    shape: tuple[int, ...],
    outputs: int,
    *,
    heads: Sequence[int] | None = None,
    mask_unseen: bool = False,
    tokens: bool = False,
    **options: object,
) -> Network:
    """Return a network with its last `nn.Linear` as the head.

    Weights are drawn from PyTorch's global generator: seed it first. With one head per task, each
    head gets the rows that the factory drew for its classes, so that training starts from the same
    weights as with a shared head.

    Args:
        name: one of `MODELS`, or "module:factory" for your own, which is called as
            `factory(shape, outputs, **options)`.
        shape: channels, height and width of the images, or the number of features or tokens.
        outputs: the number of classes.
        heads: the number of classes of each task, for one head per task; None for a shared head.
        mask_unseen: hide the classes of tasks that were not opened yet.
        tokens: the inputs are tokens, whole numbers from 0.
        options: hyperparameters of the factory.

    Example:
        >>> network = build("mlp", (1, 28, 28), 10, heads=[2, 2, 2, 2, 2], hidden=[100])
        >>> network.head[0]
        Linear(in_features=100, out_features=2, bias=True)
        >>> network(torch.zeros(3, 1, 28, 28), 4).shape
        torch.Size([3, 10])
    """
    shape, outputs = check_input_shape(shape), check_integer("outputs", outputs)
    sizes = None if heads is None else check_integers("heads", heads)
    if sizes is not None and sum(sizes) != outputs:
        raise InputError(
            f"heads is {list(sizes)}, {sum(sizes)} classes in total, expected {outputs} outputs"
        )
    network = _call_factory(name, shape, outputs, options)
    examples = _make_inputs(network, shape, tokens=tokens)
    _check_scores(network, name, examples, outputs)
    body, head = _separate_head(network, examples, outputs)
    if sizes is not None:
        if not isinstance(head, nn.Linear):
            raise InputError(
                f"model {name!r} does not end in an nn.Linear with {outputs} outputs, which one "
                "head per task requires; use another model, or a shared head"
            )
        head = _split_head(head, sizes)
    return Network(body, head, outputs, mask_unseen=mask_unseen)


def _make_inputs(network: nn.Module, shape: tuple[int, ...], *, tokens: bool) -> Tensor:
    """Return two random examples, without using the global generator."""
    generator = torch.Generator().manual_seed(INPUT_SEED)
    images = torch.rand(2, *shape, generator=generator, device="cpu")
    like: Tensor = next(network.parameters(), images)
    if tokens:  # every vocabulary has the first token
        return torch.zeros(2, *shape, dtype=torch.int64, device=like.device)
    return images.to(like.device, like.dtype)


def _check_scores(network: nn.Module, name: str, examples: Tensor, outputs: int) -> None:
    """Raise unless the network returns one score per example and class."""
    try:
        if has_lazy_parameters(network):  # its first forward pass initializes it
            modes = [(module, module.training) for module in network.modules()]
            with torch.no_grad():
                network.eval()(examples)
            for module, mode in modes:  # a frozen part may be in evaluation mode
                module.training = mode
        with preserve_state(network):
            scores = network(examples)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(
            f"model {name!r} fails for inputs of {tuple(examples.shape[1:])}: {reason}"
        ) from error
    returned = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    if returned != (2, outputs):
        raise InputError(
            f"model {name!r} returns {returned} for two examples, expected a tensor of"
            f" (2, {outputs}): one score per class"
        )


class _StandIn(nn.Module):
    """Returns known scores of both signs in place of a layer."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(INPUT_SEED)
        self.scores = 100 * torch.randn(2, outputs, generator=generator, device="cpu")

    def forward(self, features: Tensor) -> Tensor:
        return self.scores.to(features)


def _separate_head(
    network: nn.Module, examples: Tensor, outputs: int
) -> tuple[nn.Module, nn.Module]:
    """Return body and head; the head is the identity if the last operation is not an `nn.Linear`.

    The output of the last layer must be the output of the network. This is tested with known scores
    in its place, which an activation or a scaling after it would change.
    """
    candidates = [
        (path, part)
        for path, part in network.named_modules()
        if type(part) is nn.Linear and part.out_features == outputs
    ]
    if not candidates or not candidates[-1][0]:
        return network, nn.Identity()
    path, head = candidates[-1]
    above, _, name = path.rpartition(".")
    parent, stand_in = network.get_submodule(above), _StandIn(outputs)
    try:
        with preserve_state(network):
            expected = network(examples)
            setattr(parent, name, stand_in)
            known = network(examples)
            setattr(parent, name, nn.Identity())
            features = network(examples)
            is_last = torch.equal(known, stand_in.scores.to(known))  # nothing follows it
            difference = (head(features) - expected).norm()  # not exact on every device
            is_last &= bool(difference <= 1e-4 * expected.norm())  # nor was it used before
    except Exception:  # the forward pass reads the layer's weights, for example
        is_last = False
    if not is_last:
        setattr(parent, name, head)
    return network, head if is_last else nn.Identity()


def _split_head(head: nn.Linear, sizes: Sequence[int]) -> nn.ModuleList:
    """Return one layer per task with its rows of `head`, without drawing random numbers."""
    rows = {key: value.split(list(sizes)) for key, value in head.state_dict().items()}
    parts = nn.ModuleList()
    for task, size in enumerate(sizes):
        part = nn.utils.skip_init(
            nn.Linear, head.in_features, size, bias=head.bias is not None,
            device=head.weight.device, dtype=head.weight.dtype,
        )  # fmt: skip
        part.load_state_dict({key: values[task] for key, values in rows.items()})
        parts.append(part)
    return parts


def find_factory(name: str) -> Callable[..., object]:
    """Return the factory of a named model, or your own for "module:name".

    Example:
        >>> find_factory("torch.nn:Linear").__name__
        'Linear'
    """
    if name not in MODELS and ":" not in name:
        raise unknown_model(name)
    factory = import_user_attribute(MODELS.get(name, name), "model")
    if not callable(factory):
        raise InputError(
            f"model {name!r} is {type(factory).__name__}, expected a function or class to call"
            " with (shape, outputs)"
        )
    return factory


def _call_factory(
    name: str, shape: tuple[int, ...], outputs: int, options: Mapping[str, object]
) -> nn.Module:
    """Return the network that a factory builds; raise if it does not accept the arguments."""
    factory = find_factory(name)
    try:
        inspect.signature(factory).bind(shape, outputs, **options)
    except TypeError as error:
        arguments = ", ".join(["shape", "outputs", *(f"{key}=" for key in options)])
        raise InputError(
            f"model {name!r} is called with ({arguments}): {error}; "
            f"it takes {_format_parameters(factory)}"
        ) from None
    except ValueError:
        pass  # implemented in C: its parameters are not known
    network = factory(shape, outputs, **options)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"model {name!r} returns {type(network).__name__}, expected a torch.nn.Module"
        )
    return network


def _format_parameters(factory: Callable[..., object]) -> str:
    """Return the parameters of a factory with their defaults, but without types."""
    signature = inspect.signature(factory)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(parameters))
