"""Models of the zoo that are no modules, or have parts that are not among their submodules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .evaluator_loops import CLASSES, FEATURES
from .evaluator_models import Body, mlp, normed
from .zoo_loop import Subject, device

if TYPE_CHECKING:
    from collections.abc import Callable


def head() -> nn.Module:
    """Return a part that is another in training mode."""
    return nn.Sequential(nn.BatchNorm1d(CLASSES), nn.Dropout(0.3), nn.Linear(CLASSES, CLASSES))


# Callables that are no modules.


def closure() -> Subject:
    net = normed()
    return Subject([net], model=lambda x: net(x))


NETS: dict[str, nn.Module] = {}


def helper(x: Tensor) -> Any:
    return NETS["net"](x)


def named_global() -> Subject:
    NETS["net"] = net = normed()
    return Subject([net], model=lambda x: NETS["net"](x))


def calls_a_helper() -> Subject:
    NETS["net"] = net = normed()
    return Subject([net], model=lambda x: helper(x))


def bound_forward() -> Subject:
    net = normed()
    return Subject([net], model=net.forward)


class Wrapper:
    """Calls a model, and is none."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def __call__(self, x: Tensor) -> Any:
        return self.net(x)

    def predict(self, x: Tensor) -> Any:
        return self.net(x)


class Slotted:
    __slots__ = ("net",)

    def __init__(self, net: Any) -> None:
        self.net = net

    def __call__(self, x: Tensor) -> Any:
        return self.net(x)


def wrapped(wrap: Callable[[Any], Any]) -> Subject:
    net = normed()
    return Subject([net], model=wrap(net))


def with_default(net: nn.Module) -> Any:
    def model(x: Tensor, net: nn.Module = net) -> Any:
        return net(x)

    return model


def decorated(net: nn.Module) -> Any:
    @torch.no_grad()
    def model(x: Tensor) -> Any:
        return net(x)

    return model


def in_namespace(net: nn.Module) -> Any:
    parts = SimpleNamespace(nets={"all": [net]})
    return lambda x: parts.nets["all"][0](x)


def functional() -> Subject:
    """Its weights are tensors in a dict, with a module as the skeleton."""
    skeleton = mlp()
    holder = nn.ParameterList([p.detach().clone() for p in skeleton.parameters()])
    names = [name for name, _ in skeleton.named_parameters()]
    weights = dict(zip(names, holder, strict=True))

    def model(x: Tensor, _: str = "") -> Any:
        return functional_call(skeleton, weights, (x,))

    return Subject([holder, skeleton], model=model, call=model)


class Registry:
    """Keeps modules where no search looks: on the class."""

    nets: dict[str, nn.Module] = {}  # noqa: RUF012


def from_registry(x: Tensor) -> Any:
    return Registry.nets["net"](x)


def hidden(*, named: bool) -> Subject:
    Registry.nets["net"] = net = normed()
    return Subject([net], model=from_registry, options={"modules": [net]} if named else {})


def stateless() -> Subject:
    def model(x: Tensor, _: str = "") -> Tensor:
        return x[:, :CLASSES]

    return Subject([nn.Identity(), nn.Linear(1, 1)], model=model, call=model)


# Parts next to the model.


def head_outside() -> Subject:
    body, top = normed(), head()
    return Subject(
        [body, top],
        call=lambda x, _: top(body(x)),
        options={"forward": lambda model, x: top(model(x))},
    )


def head_per_task() -> Subject:
    body, tops = normed(), {task: head() for task in "ab"}
    return Subject(
        [body, *tops.values()],
        call=lambda x, task: tops[task](body(x)),
        options={"forward": lambda model, x, task: tops[task](model(x))},
    )


def hidden_head(*, named: bool) -> Subject:
    body = normed()
    Registry.nets["net"] = top = head()
    options: dict[str, Any] = {"forward": lambda model, x: from_registry(model(x))}
    return Subject(
        [body, top],
        call=lambda x, _: top(body(x)),
        options={**options, "modules": [top]} if named else options,
    )


class Holding(Body):
    """Holds a head in some way that registers nothing."""

    def __init__(self, hold: Callable[[nn.Module], Any], find: Callable[[Any], Any]) -> None:
        super().__init__()
        self.top = hold(head())
        self.find = find

    def forward(self, x: Tensor) -> Any:
        return self.find(self.top)(self.body(x))


def holding(hold: Callable[[nn.Module], Any], find: Callable[[Any], Any]) -> Subject:
    net = Holding(hold, find)
    return Subject([net, find(net.top)])


def own_forward() -> Subject:
    net, top = normed(), head()
    plain = net.forward
    vars(net)["forward"] = lambda x: top(plain(x))  # type: ignore[no-untyped-call]
    return Subject([net, top])


def hooked() -> Subject:
    net, top = normed(), head()
    net.register_forward_hook(lambda _, __, output: top(output))
    return Subject([net, top])


def growing_list() -> Subject:
    net = Holding(lambda top: [top], lambda tops: nn.Sequential(*tops))
    subject = Subject([net, net.top[0]])

    def grow(step: int) -> None:
        if step == 3:
            net.top.append(head().to(device()))
            subject.modules.append(net.top[1])

    subject.after = grow
    return subject


class Making(Body):
    """Makes a layer with weights at every forward."""

    def forward(self, x: Tensor) -> Any:
        return self.body(nn.LayerNorm(FEATURES, device=x.device)(x))


def scored_by_features() -> Subject:
    """The score of each row goes through a network that is not trained."""
    net, extractor = normed(), head()

    def score(model: Any, x: Tensor, y: Tensor) -> Tensor:
        return torch.as_tensor(extractor(model(x)).argmax(1) == y)

    return Subject(
        [net, extractor],
        call=lambda x, _: extractor(net(x)),
        options={"score": score},
    )


def scored_by_criterion() -> Subject:
    net, criterion = normed(), nn.CrossEntropyLoss(reduction="none")

    def score(model: Any, x: Tensor, y: Tensor) -> Tensor:
        outputs = model(x)
        assert criterion(outputs, y).shape == y.shape
        return torch.as_tensor(outputs.argmax(1) == y)

    return Subject([net], options={"score": score})
