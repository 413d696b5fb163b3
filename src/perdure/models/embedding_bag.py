"""The mean of the embeddings of all tokens, and a dense layer."""

from __future__ import annotations

from torch import Tensor, nn

from ._check import check_input_shape, check_integer

__all__ = ["EmbeddingBag", "embedding_bag"]


class EmbeddingBag(nn.Module):
    """Returns the mean of the embeddings of each row of tokens.

    It equals `nn.EmbeddingBag`, but the gradients of single examples can be computed at once.

    Args:
        vocabulary: the number of tokens.
        dim: the size of an embedding.
        padding: a token that does not count; None if there is none.
    """

    def __init__(self, vocabulary: int, dim: int, padding: int | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.padding = padding

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (N, dim) for tokens (N, L)."""
        embedded: Tensor = self.embedding(tokens)
        if self.padding is None:
            return embedded.mean(-2)
        counts = tokens.ne(self.padding).unsqueeze(-1).to(embedded.dtype)
        return (embedded * counts).sum(-2) / counts.sum(-2).clamp(min=1)


def embedding_bag(
    shape: tuple[int, ...],
    outputs: int,
    *,
    vocabulary: int,
    dim: int = 64,
    hidden: int = 128,
    padding: int | None = None,
) -> nn.Sequential:
    """Return a network for tokens: the mean of their embeddings, one hidden layer of ReLU.

    Args:
        shape: the number of tokens per example.
        outputs: the number of classes.
        vocabulary: the number of tokens, from 0 to one less.
        dim: the size of an embedding.
        hidden: the size of the hidden layer.
        padding: a token that does not count; None if there is none.

    Example:
        >>> embedding_bag((20,), 4, vocabulary=1000)[-1]
        Linear(in_features=128, out_features=4, bias=True)
    """
    check_input_shape(shape)
    size = check_integer("embedding-bag: hidden", hidden)
    dim = check_integer("embedding-bag: dim", dim)
    return nn.Sequential(
        EmbeddingBag(check_integer("embedding-bag: vocabulary", vocabulary), dim, padding),
        nn.Linear(dim, size),
        nn.ReLU(inplace=True),
        nn.Linear(size, check_integer("outputs", outputs)),
    )
