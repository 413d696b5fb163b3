"""A small LLaMA in plain PyTorch, toy text of unequal lengths, and its scores by plain loops."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY, WIDTH, HEADS, PAD = 13, 16, 2, 0
IGNORED = -100

Example = dict[str, list[int]]


class Norm(nn.Module):
    """Root mean square normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def rotate(x: Tensor) -> Tensor:
    """Return queries or keys with rotary position embeddings."""
    half, length = x.shape[-1] // 2, x.shape[-2]
    places, turns = torch.arange(length, device=x.device), torch.arange(half, device=x.device)
    angle = places[:, None] * 100.0 ** -(turns / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Layer(nn.Module):
    """Causal attention and a gated feed-forward network, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = Norm(), Norm()
        self.qkv, self.out = (
            nn.Linear(WIDTH, 3 * WIDTH, bias=False),
            nn.Linear(WIDTH, WIDTH, bias=False),
        )
        self.up, self.down = (
            nn.Linear(WIDTH, 4 * WIDTH, bias=False),
            nn.Linear(2 * WIDTH, WIDTH, bias=False),
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, length, _ = x.shape
        q, k, v = (
            self.qkv(self.before(x)).view(rows, length, 3 * HEADS, -1).transpose(1, 2).chunk(3, 1)
        )
        mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, attn_mask=mask)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(x.shape)))
        gate, value = self.up(self.after(x)).chunk(2, -1)
        return x + self.dropout(self.down(F.silu(gate) * value))  # type: ignore[no-any-return]


class Llama(nn.Module):
    """Takes a batch by keywords and returns a dict with logits, as Hugging Face's models do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.norm, self.head = Norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        length = input_ids.shape[1]
        square = torch.ones(length, length, dtype=torch.bool, device=input_ids.device)
        mask = square.tril()[None, None]
        if attention_mask is not None:  # each position sees itself, or it would see nothing
            mask = mask & (attention_mask[:, None, None].bool() | (mask & ~square.tril(-1)))
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x, mask)
        return {"logits": self.head(self.norm(x))}


def llama() -> Llama:
    return Llama()


def text(seed: int, count: int = 13) -> list[Example]:
    """Return sequences of 2 to 9 tokens, each the one before plus a number of its own."""
    rng = torch.Generator().manual_seed(seed)
    draw = torch.randint(0, 1000, (count, 3), generator=rng).tolist()
    return [
        {"input_ids": [1 + (a + k * (1 + seed)) % (VOCABULARY - 1) for k in range(2 + b % 8)]}
        for a, b, _ in draw
    ]


def pad(examples: Sequence[Any], *, left: bool = False) -> dict[str, Tensor]:
    """Collate as Hugging Face's collator for causal language models does."""
    length = max(len(example["input_ids"]) for example in examples)

    def fill(values: list[int], value: int) -> list[int]:
        more = [value] * (length - len(values))
        return more + values if left else values + more

    rows = [example["input_ids"] for example in examples]
    labels = [example.get("labels", example["input_ids"]) for example in examples]
    return {
        "input_ids": torch.tensor([fill(row, PAD) for row in rows]),
        "attention_mask": torch.tensor([fill([1] * len(row), 0) for row in rows]),
        "labels": torch.tensor([fill(row, IGNORED) for row in labels]),
    }


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Return the loss of a step of training."""
    logits = model(batch["input_ids"], batch["attention_mask"])["logits"]
    return F.cross_entropy(
        logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=IGNORED
    )


def true_scores(model: nn.Module, examples: Sequence[Example]) -> dict[str, float]:
    """Return all four scores by loops over examples and tokens, without padding or batches."""
    mine = copy.deepcopy(model).cpu().eval().double()
    losses: list[list[float]] = []
    right: list[list[bool]] = []
    for example in examples:
        ids = example["input_ids"]
        labels = example.get("labels", ids)
        with torch.no_grad():
            rows = mine(torch.tensor([ids]))["logits"][0].tolist()
        losses.append([])
        right.append([])
        for k in range(len(ids) - 1):
            row, label = rows[k], labels[k + 1]
            if label != IGNORED:
                losses[-1].append(math.log(sum(math.exp(v) for v in row)) - row[label])
                right[-1].append(row.index(max(row)) == label)
    tokens = sum(map(len, losses))
    nll = sum(map(sum, losses)) / tokens
    return {
        "nll": nll,
        "perplexity": math.exp(nll),
        "token_accuracy": sum(map(sum, right)) / tokens,
        "exact_match": sum(bool(row) and all(row) for row in right) / len(right),
    }
