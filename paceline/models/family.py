"""What tells one family of decoders from another; each is one file in models/families."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from paceline.models.fields import Fields
from paceline.models.spec import Biases, ModelSpec

Names = Mapping[str, str]
"""Paceline's name of a tensor -> the file's, `{i}` standing for the layer.

Tensors that share a name in the file are its rows, in the order of `tensor_shapes`.
"""

USUAL_HF_NAMES: Names = {
    "embed": "model.embed_tokens.weight",
    "final_norm": "model.norm.weight",
    "head": "lm_head.weight",
    "attention_norm": "model.layers.{i}.input_layernorm.weight",
    "query": "model.layers.{i}.self_attn.q_proj.weight",
    "key": "model.layers.{i}.self_attn.k_proj.weight",
    "value": "model.layers.{i}.self_attn.v_proj.weight",
    "attention_out": "model.layers.{i}.self_attn.o_proj.weight",
    "query_norm": "model.layers.{i}.self_attn.q_norm.weight",
    "key_norm": "model.layers.{i}.self_attn.k_norm.weight",
    "mlp_norm": "model.layers.{i}.post_attention_layernorm.weight",
    "gate": "model.layers.{i}.mlp.gate_proj.weight",
    "up": "model.layers.{i}.mlp.up_proj.weight",
    "down": "model.layers.{i}.mlp.down_proj.weight",
}

USUAL_GGUF_NAMES: Names = {
    "embed": "token_embd.weight",
    "final_norm": "output_norm.weight",
    "head": "output.weight",
    "attention_norm": "blk.{i}.attn_norm.weight",
    "query": "blk.{i}.attn_q.weight",
    "key": "blk.{i}.attn_k.weight",
    "value": "blk.{i}.attn_v.weight",
    "attention_out": "blk.{i}.attn_output.weight",
    "query_norm": "blk.{i}.attn_q_norm.weight",
    "key_norm": "blk.{i}.attn_k_norm.weight",
    "mlp_norm": "blk.{i}.ffn_norm.weight",
    "gate": "blk.{i}.ffn_gate.weight",
    "up": "blk.{i}.ffn_up.weight",
    "down": "blk.{i}.ffn_down.weight",
    "rope_factors": "rope_freqs.weight",
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family: its name in both kinds of file, and how its files differ from the usual."""

    name: str
    """`model_type` of config.json, `general.architecture` of GGUF."""
    read_hf: Callable[[Fields], ModelSpec]
    """The spec in the key-values of config.json."""
    read_gguf: Callable[[Fields, Collection[str]], ModelSpec]
    """The spec in the key-values under `NAME.` of a GGUF file, and the names of its tensors."""
    hf_names: Names = field(default_factory=lambda: USUAL_HF_NAMES)
    gguf_names: Names = field(default_factory=lambda: USUAL_GGUF_NAMES)
    hf_prefix: str = ""
    """What names of Hugging Face's files start with, or leave out."""
    hf_transposed: tuple[str, ...] = ()
    """Matrices that Hugging Face's files keep as [I, O]."""
    hf_norm_offset: float = 0.0
    """What Hugging Face's files leave out of every norm's scale."""
    gguf_interleaves_rope: bool = False
    """GGUF keeps the query and key rows of a head in pairs (a0 b0 a1 b1 …), not halves."""
    redundant: tuple[str, ...] = ("rotary_emb.inv_freq",)
    """Ends of the names of tensors that old files carry and that the spec says all about."""

    def full_hf_name(self, stored: str) -> str:
        """A name of a Hugging Face file with the prefix it may have left out."""
        if stored.startswith(self.hf_prefix) or stored == self.hf_names["head"]:
            return stored
        return self.hf_prefix + stored


def tensor_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every tensor a model of this spec has: name, with `.{i}` for the layer, -> shape."""
    V, E = spec.vocab_size, spec.hidden_size
    shapes: dict[str, tuple[int, ...]] = {"embed": (V, E), **_norm_shapes(spec, final_norm=E)}
    if not spec.tie_embeddings:
        shapes["head"] = (V, E)
    if spec.rope_theta is None:
        shapes["positions"] = (spec.max_model_len, E)
    if spec.rope_scaling is not None and spec.rope_scaling.kind == "factors":
        shapes["rope_factors"] = (spec.head_size // 2,)
    for i in range(spec.num_layers):
        shapes |= {f"{name}.{i}": shape for name, shape in layer_shapes(spec).items()}
    return shapes


def layer_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """The tensors of one layer; a bias is named after its weight."""
    E, F, D = spec.hidden_size, spec.intermediate_size, spec.head_size
    Q, KV = spec.num_heads * D, spec.num_kv_heads * D
    weights = {"query": (Q, E), "key": (KV, E), "value": (KV, E), "attention_out": (E, Q)}
    weights |= {"gate": (F, E)} if spec.gated else {}
    weights |= {"up": (F, E), "down": (E, F)}
    biases: Biases = spec.biases
    biased = (
        (("query", "key", "value") if biases.qkv else ())
        + (("attention_out",) if biases.attention_out else ())
        + (("gate", "up", "down") if biases.mlp else ())
    )
    norms = {"attention_norm": E, "mlp_norm": E}
    norms |= {"query_norm": D, "key_norm": D} if spec.norms.heads else {}
    norms |= {"attention_after_norm": E, "mlp_after_norm": E} if spec.norms.after else {}
    return {
        **_norm_shapes(spec, **norms),
        **weights,
        **{f"{name}_bias": weights[name][:1] for name in biased if name in weights},
    }


def _norm_shapes(spec: ModelSpec, **widths: int) -> dict[str, tuple[int, ...]]:
    kinds = ("", "_bias") if spec.norms.centred else ("",)
    return {f"{name}{kind}": (width,) for name, width in widths.items() for kind in kinds}


def stem_of(name: str) -> str:
    """The name of a tensor less its layer."""
    return name.partition(".")[0]


def file_name(names: Names, name: str) -> str:
    """The file's name of a tensor of tensor_shapes."""
    stem, _, layer = name.partition(".")
    pattern = names.get(stem) or names[stem.removesuffix("_bias")].replace(".weight", ".bias")
    return pattern.format(i=layer)
