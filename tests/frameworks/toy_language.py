"""A tiny LLaMA, a tokenizer of a few words, and three tasks that contradict each other."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from .helpers import needs

NOUNS = ["cat", "dog", "cow", "fox", "owl", "bee", "ant", "hen"]
TASKS = {"next": 1, "second": 2, "third": 3}  # the answer is the noun so many places further


@cache
def tokenizer() -> Any:
    """Return a tokenizer of whole words, made in memory."""
    tokenizers, transformers = needs("tokenizers"), needs("transformers")
    words = ["[PAD]", "[EOS]", "after", "is", *TASKS, *NOUNS]
    model = tokenizers.models.WordLevel({word: k for k, word in enumerate(words)}, "[PAD]")
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", eos_token="[EOS]"
    )


def sentences(task: str) -> list[str]:
    """Return the same questions for every task: what comes after each noun."""
    shift = TASKS[task]
    return [f"after {a} is {NOUNS[(k + shift) % len(NOUNS)]}" for k, a in enumerate(NOUNS)]


def rows(task: str) -> dict[str, Tensor]:
    """Return token ids, and labels for the answers alone."""
    ids = torch.tensor(tokenizer()(sentences(task))["input_ids"])
    labels = ids.clone()
    labels[:, :-1] = -100
    return {"input_ids": ids, "labels": labels}


def examples(task: str, copies: int = 4) -> list[dict[str, Tensor]]:
    found = rows(task)
    return [{name: part[k] for name, part in found.items()} for k in range(len(NOUNS))] * copies


def llama(seed: int = 0, dropout: float = 0.1) -> Any:
    transformers = needs("transformers")
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer()), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=16,
        attention_dropout=dropout, initializer_range=0.3,  # what LoRA cannot change is of use
        pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(config)
