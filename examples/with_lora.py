"""What LoRA forgets of the base model, with TRL's SFTTrainer: python examples/with_lora.py."""

import sys

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

import perdure
from perdure.adapters.transformers import ContinualEvaluation

set_seed(0)
nouns = ["cat", "dog", "cow", "fox", "owl", "bee", "ant", "hen"]
words = {word: k for k, word in enumerate(["[PAD]", "[EOS]", "likes", "fears", *nouns])}
backend = Tokenizer(models.WordLevel(words, "[PAD]"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", eos_token="[EOS]")
args = {"num_train_epochs": 40, "learning_rate": 5e-3, "save_strategy": "no", "report_to": "none"}
args = SFTConfig("runs/trainer", bf16=False, max_length=8, dataloader_pin_memory=False, **args)
texts, tests = {}, {}
for task, verb, k in (("general", "likes", 1), ("first", "fears", 3), ("second", "fears", 5)):
    texts[task] = [f"{a} {verb} {b}" for a, b in zip(nouns, nouns[k:] + nouns[:k], strict=True)]
    ids = tokenizer(texts[task], return_tensors="pt")["input_ids"]
    data = {"input_ids": ids, "labels": ids.masked_fill(torch.arange(3) < 2, -100)}  # the answer
    tests[task] = perdure.EvalTask(data, control=task == "general")  # evaluated, not learned again
size = {"vocab_size": len(words), "hidden_size": 32, "intermediate_size": 64}
config = LlamaConfig(**size, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.2)
model = LlamaForCausalLM(config)
record = perdure.Record(sys.argv[1] if len(sys.argv) > 1 else "runs/lora", overwrite=True)
with ContinualEvaluation(tests, score="exact_match", every=10, record=record) as evaluation:
    for task, sentences in texts.items():
        data, evaluation.task = Dataset.from_dict({"text": sentences}), task
        use = {"processing_class": tokenizer, "callbacks": [evaluation][task == "general" :]}
        SFTTrainer(model, args, train_dataset=data, **use).train()
        if task == "general":  # the base model is ready
            model = get_peft_model(model, LoraConfig(lora_alpha=32, target_modules="all-linear"))
print(evaluation.summary())
