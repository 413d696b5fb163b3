"""A tiny LLaMA learns facts that contradict each other: python examples/with_transformers.py."""

import sys

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import perdure
from perdure.adapters.transformers import ContinualEvaluation

transformers.set_seed(0)
nouns = ["cat", "dog", "cow", "fox", "owl", "bee", "ant", "hen"]
words = {word: k for k, word in enumerate(["[PAD]", "after", "is", *nouns])}
backend = Tokenizer(models.WordLevel(words, "[PAD]"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]")


def facts(shift):
    """Return token ids, and labels for the answers alone: after cat is dog, after dog is …"""
    pairs = zip(nouns, nouns[shift:] + nouns[:shift], strict=True)
    ids = tokenizer([f"after {a} is {b}" for a, b in pairs], return_tensors="pt")["input_ids"]
    labels = ids.clone()
    labels[:, :-1] = -100
    return [{"input_ids": i, "labels": label} for i, label in zip(ids, labels, strict=True)]


size = {"vocab_size": len(words), "hidden_size": 32, "intermediate_size": 64}
config = transformers.LlamaConfig(**size, num_hidden_layers=2, num_attention_heads=2)
model = transformers.LlamaForCausalLM(config)
tasks = {f"shift {shift}": facts(shift) for shift in (1, 2, 3)}
record = perdure.Record(sys.argv[1] if len(sys.argv) > 1 else "runs/llama", overwrite=True)
args = {"num_train_epochs": 20, "learning_rate": 1e-2, "save_strategy": "no", "report_to": "none"}
args = transformers.TrainingArguments("runs/trainer", dataloader_pin_memory=False, **args)
with ContinualEvaluation(tasks, score="exact_match", record=record) as evaluation:
    for task, data in tasks.items():
        evaluation.task = task
        transformers.Trainer(model, args, train_dataset=data, callbacks=[evaluation]).train()
print(evaluation.summary())
