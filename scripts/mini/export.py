"""Write a trained model as the folder Hugging Face and Paceline read."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from . import tokenizer as bpe
from .recipe import CONTEXT, VOCAB, Shape
from .train import Model

STORED = torch.bfloat16


def export(model: Model, shape: Shape, tokenizer: Tokenizer, folder: Path) -> None:
    """Weights in bf16 (the tied head once), the configuration and the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.detach().to(STORED).contiguous()
        for name, weight in model.state_dict().items()
        if name != "lm_head.weight"
    }
    path = folder / "model.safetensors"
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod(0o644)  # a package installed by one user is read by others
    _write(folder / "config.json", _config(shape))
    _write(folder / "generation_config.json", {"eos_token_id": 0})
    bpe.save(tokenizer, folder)


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": shape.rope_theta,
        "max_position_embeddings": CONTEXT,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": 0,
        "torch_dtype": "bfloat16",
    }


def _write(path: Path, values: dict[str, object]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
