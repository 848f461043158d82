"""Measure the exported pair on held-out text and write metrics.json."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaForCausalLM

from . import corpus
from . import tokenizer as bpe
from .batches import held_out_rows
from .train import Logits, Model, held_out_loss, logits_of

ROW_TOKENS = 512
LOOK_TOKENS = 32769
PROMPTS = ("def fibonacci(n):\n", "import os\n\nclass ", "for i in range(")
SAMPLE_TOKENS = 64


def measure(out: Path, work: Path) -> None:
    """Every figure the card quotes, from the bf16 files as they are shipped."""
    documents = corpus.documents()
    tokenizer = Tokenizer.from_file(str(out / "target" / "tokenizer.json"))
    ids = bpe.encode(tokenizer, documents, held_out=True)
    batch = held_out_rows(ids, ROW_TOKENS, LOOK_TOKENS)
    models = {name: _load(out / name) for name in ("target", "draft")}
    metrics: dict[str, Any] = {
        "data": _data(documents),
        "held_out_tokens": batch[:, 1:].numel(),
        "row_tokens": ROW_TOKENS,
        "threads": torch.get_num_threads(),
        **{name: _one(model, batch, work / f"{name}.pt") for name, model in models.items()},
    }
    target, draft = logits_of(models["target"]), logits_of(models["draft"])
    metrics["pair"] = {
        "held_out_text": agreement(target, draft, batch),
        "own_samples": agreement(target, draft, _own_samples(models["target"], batch)),
    }
    metrics["samples"] = _samples(models["target"], tokenizer)
    text = json.dumps(metrics, indent=2) + "\n"
    (out / "metrics.json").write_text(text, encoding="utf-8")


@torch.no_grad()
def agreement(target: Logits, draft: Logits, batch: Tensor) -> dict[str, float]:
    """alpha = mean of sum_v min(p, q) at temperature 1, and how often both argmaxes agree."""
    overlap = same = 0.0
    for part in batch.split(4):  # type: ignore[no-untyped-call]
        p = target(part[:, :-1]).softmax(-1)  # [B, T, V]
        q = draft(part[:, :-1]).softmax(-1)
        overlap += float(torch.minimum(p, q).sum())
        same += float((p.argmax(-1) == q.argmax(-1)).sum())
    count = batch[:, 1:].numel()
    return {"alpha": overlap / count, "greedy_agreement": same / count}


def _load(folder: Path) -> Model:
    model: Model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def _data(documents: list[corpus.Document]) -> dict[str, Any]:
    train = [doc for doc in documents if not doc.held_out]
    held_out = [doc for doc in documents if doc.held_out]
    return {
        "source": corpus.SOURCE,
        "licence": corpus.LICENCE,
        "train_files": len(train),
        "train_bytes": sum(len(doc.text.encode()) for doc in train),
        "held_out_files": len(held_out),
        "held_out_bytes": sum(len(doc.text.encode()) for doc in held_out),
    }


def _one(model: Model, batch: Tensor, checkpoint: Path) -> dict[str, Any]:
    saved = torch.load(checkpoint, weights_only=True)
    loss = held_out_loss(logits_of(model), batch)
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "shape": saved["shape"],
        "schedule": saved["schedule"],
        "steps": saved["progress"]["step"],
        "train_tokens": saved["progress"]["step"] * saved["schedule"]["step_tokens"],
        "train_minutes": saved["progress"]["seconds"] / 60,
        "held_out_loss": loss,
        "held_out_perplexity": math.exp(loss),
        "history": saved["progress"]["history"],
    }


def _own_samples(model: Model, batch: Tensor) -> Tensor:
    """Text the target itself writes at temperature 1: what a drafter meets at work."""
    torch.manual_seed(0)
    prompts = batch[::4, :32][:24]
    written: Tensor = model.generate(
        prompts, do_sample=True, top_k=0, max_new_tokens=128, use_cache=True, eos_token_id=None
    )
    return written[:, 32:]


def _samples(model: Model, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Completions of the card's prompts, greedy and at temperature 0.8."""
    torch.manual_seed(0)
    shown = []
    for prompt in PROMPTS:
        ids = torch.tensor([tokenizer.encode(prompt).ids])
        for temperature in (0.0, 0.8):
            sampled = {"do_sample": True, "temperature": temperature, "top_k": 0}
            settings = sampled if temperature else {"do_sample": False}
            written = model.generate(ids, max_new_tokens=SAMPLE_TOKENS, use_cache=True, **settings)
            text = tokenizer.decode(written[0].tolist())
            shown.append({"prompt": prompt, "temperature": temperature, "text": text})
    return shown
