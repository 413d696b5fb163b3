"""A custom strategy: cd examples && perdure run split-digits own_strategy:Gentle."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from perdure.strategies import Strategy


class Gentle(Strategy):
    """Penalizes changes of the weights since the end of the previous task.

    Set `strength` on the command line: --set strength=0.1
    """

    def __init__(self, *learner, strength: float = 0.01, **options):
        super().__init__(*learner, **options)
        if strength < 0:
            raise ValueError(f"strength is {strength:g}, expected 0 or more")
        self.strength = strength
        self.anchor: list[Tensor] = []  # attributes are saved in checkpoints

    def step(self, new, *others, on_loss_terms=None):
        plasticity = cross_entropy(self.model(new.x, new.task), new.y)
        pairs = zip(self.model.parameters(), self.anchor, strict=False)
        stability = sum(((p - a).square().sum() for p, a in pairs), start=plasticity.new_zeros(()))
        if on_loss_terms is not None:  # for the gradient norms of both terms
            on_loss_terms(plasticity, stability)
        loss = plasticity + self.strength * stability
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def end_task(self, task, rows):
        self.anchor = [p.detach().clone() for p in self.model.parameters()]
