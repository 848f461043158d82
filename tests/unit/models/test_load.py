"""Loading whole models: the embedded one, the config's faults, the tensors' faults."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from paceline.errors import ConfigError, ModelError, ModelFileError, UnsupportedModelError
from paceline.models import load_model
from paceline.models.families import families
from paceline.models.safetensors_file import SINGLE
from paceline.models.spec import RopeScaling
from tests.model_files import hf_model, write_gguf, write_tokenizer
from tests.tiny_models import SPECS, one_text, random_weights

SPEC = SPECS["qkv biases"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hf_model(SPEC, random_weights(SPEC)).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    return tmp_path


def edit(folder: Path, **changes: Any) -> None:
    """Change keys of config.json; None takes them away."""
    path = folder / "config.json"
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def edit_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    """Change tensors of model.safetensors; None takes them away."""
    tensors = {**load_file(folder / SINGLE), **changes}
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / SINGLE)


def test_the_embedded_model() -> None:
    model, draft = load_model("mini"), load_model("mini-draft")
    assert model.name == "mini"
    assert model.spec.family in families
    assert model.tokenizer.vocab_size <= model.spec.vocab_size == draft.spec.vocab_size
    assert model.spec.eos_ids == model.tokenizer.eos_ids
    assert (model.dtype, model.device) == (torch.float32, "cpu")
    kv = model.allocate_kv(7)
    spec = model.spec
    assert kv.keys.shape == (spec.num_layers, 7, spec.num_kv_heads, spec.head_size)
    assert kv.keys.dtype == model.dtype
    assert not kv.values.any()


def test_progress_counts_up_to_the_whole(folder: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    load_model(folder, progress=lambda *call: calls.append(call))
    done, totals, what = zip(*calls, strict=True)
    assert list(done) == sorted(set(done))
    assert set(totals) == {done[-1]} == {4 * sum(t.numel() for t in random_weights(SPEC).values())}
    assert set(what) == {"load"}


def test_an_unknown_dtype(folder: Path) -> None:
    with pytest.raises(ConfigError, match="dtype must be auto, float32 or bfloat16, not 'int3'"):
        load_model(folder, dtype="int3")


@pytest.mark.parametrize("device", ["nonsense", "", "cuda:", "cuda:-1", "mps", "cuda:1 "])
def test_an_unknown_device(device: str) -> None:
    """Told before the model is looked for."""
    with pytest.raises(ConfigError, match=f"must be cpu, cuda or cuda:N, not '{device}'"):
        load_model("no such model", device=device)


@pytest.mark.parametrize(("device", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2)])
def test_a_device_that_is_not_here(
    device: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ConfigError, match=f"no device '{device}': .* sees {count} CUDA .* cpu"):
        load_model("no such model", device=device)


CONFIG_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "hidden_size": ({"hidden_size": -1}, "hidden_size: -1 is no integer in 1"),
    "float size": ({"hidden_size": 48.0}, "hidden_size: 48.0 is no integer"),
    "true": ({"num_hidden_layers": True}, "num_hidden_layers: True is no integer"),
    "missing": ({"vocab_size": None}, "vocab_size: is missing"),
    "absurd": ({"vocab_size": 10**12}, "vocab_size: 1000000000000 is no integer"),
    "eps": ({"rms_norm_eps": "tiny"}, "rms_norm_eps: 'tiny' is no number"),
    "theta": ({"rope_parameters": {"rope_theta": 0}}, "rope_parameters.rope_theta: 0 is no number"),
    "rope": ({"rope_parameters": 3}, "rope_parameters: 3 is no object"),
    "factor": (
        {"rope_parameters": {"rope_type": "linear"}},
        "rope_parameters.factor: is missing",
    ),
    "band": (
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 2,
                "low_freq_factor": 4,
                "high_freq_factor": 1,
                "original_max_position_embeddings": 32,
            }
        },
        "sizes: low_freq_factor must be below high_freq_factor",
    ),
    "heads": ({"num_key_value_heads": 4}, "sizes: 6 heads cannot share 4 kv heads evenly"),
    "odd head": ({"head_dim": 7}, "sizes: The head size 7 is not even"),
    "more layers": (
        {"num_hidden_layers": 4},
        "'model.layers.3.input_layernorm.weight': is missing",
    ),
    "fewer layers": ({"num_hidden_layers": 2}, "is not one of a qwen2 model .* more"),
    "width": ({"intermediate_size": 131}, r"has the shape \[130, 48\]; .* want \[131, 48\]"),
    "vocabulary": ({"vocab_size": 256}, "vocab_size: 256 is fewer than the tokenizer's 257 ids"),
}


@pytest.mark.parametrize("case", CONFIG_FAULTS)
def test_a_wrong_config_names_the_file_and_the_field(case: str, folder: Path) -> None:
    changes, complaint = CONFIG_FAULTS[case]
    edit(folder, **changes)
    with pytest.raises(ModelFileError, match=complaint) as error:
        load_model(folder)
    assert str(error.value).startswith(str(folder))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model_type": "bert"}, "model_type 'bert' is not supported; known: .*, qwen2"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        (
            {"use_sliding_window": True, "sliding_window": 4, "layer_types": ["chunked"]},
            "the layer type 'chunked' is not supported",
        ),
        ({"quantization_config": {"bits": 4}}, "quantization_config is not supported"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope scaling 'yarn' is not supported"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
    ],
)
def test_a_config_that_would_be_computed_wrongly(
    changes: dict[str, Any], complaint: str, folder: Path
) -> None:
    edit(folder, **changes)
    with pytest.raises(UnsupportedModelError, match=complaint):
        load_model(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "[" * 50_000])
def test_a_config_that_is_no_object(text: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelFileError, match=r"config.json: JSON: "):
        load_model(folder)


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"config.json: is missing; is this a model"):
        load_model(tmp_path)


def test_a_missing_tensor(folder: Path) -> None:
    edit_tensors(folder, **{"model.norm.weight": None})
    with pytest.raises(ModelFileError, match=r"tensor 'model.norm.weight': is missing"):
        load_model(folder)


def test_an_unexpected_tensor(folder: Path) -> None:
    edit_tensors(folder, extra=torch.zeros(1), another=torch.zeros(1))
    with pytest.raises(ModelFileError, match=r"'another': is not one of .* \(and 1 more\)"):
        load_model(folder)


def test_a_misshapen_tensor(folder: Path) -> None:
    edit_tensors(folder, **{"model.norm.weight": torch.zeros(47)})
    with pytest.raises(
        ModelFileError, match=r"has the shape \[47\]; the model's sizes want \[48\]"
    ):
        load_model(folder)


def test_tensors_that_repeat_what_is_known(tmp_path: Path) -> None:
    spec = SPECS["grouped heads, tied"]
    weights = random_weights(spec)
    hf_model(spec, weights).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    edit_tensors(
        tmp_path,
        **{
            "lm_head.weight": weights["embed"].clone(),
            "model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8),
        },
    )
    assert load_model(tmp_path).spec.tie_embeddings


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match="6 heads cannot share 4"):
        replace(SPEC, num_kv_heads=4)
    with pytest.raises(ModelError, match="head size 0 is not even"):
        replace(SPEC, head_size=0)
    with pytest.raises(ModelError, match="no rope scaling 'yarn'"):
        RopeScaling(kind="yarn")


PEAK = """
import sys
from pathlib import Path
from paceline.models import load_model

def kilobytes(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))

before = kilobytes("VmRSS")
model = load_model(sys.argv[1])
print((kilobytes("VmHWM") - before) * 1024 / model.weight_bytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives pages back on demand")
def test_loading_never_holds_two_copies(tmp_path: Path) -> None:
    """Pages of the file count as memory too, until they are given back."""
    spec = replace(SPEC, hidden_size=960, intermediate_size=9000, num_layers=1)
    weights = {k: v.zero_() for k, v in random_weights(spec).items()}
    write_gguf(tmp_path / "model.gguf", spec, weights)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "model.gguf")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0.9 < float(result.stdout) < 1.3


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_logits_of_the_first_ids_alone(folder: Path, kernels: str) -> None:
    """To the bit those of the whole head, tied or not."""
    whole, cut = (load_model(folder, kernels=kernels, head_ids=n) for n in (None, 100))
    assert cut.program.registers["logits"][1] == 100
    batch = one_text([3, 1, 4, 1, 5])
    expected = whole.forward(batch, whole.allocate_kv(5)).logits[:, :100].clone()
    assert torch.equal(cut.forward(batch, cut.allocate_kv(5)).logits, expected)


@pytest.mark.parametrize("count", [0, -1, 10**6])
def test_no_such_number_of_ids(folder: Path, count: int) -> None:
    with pytest.raises(ConfigError, match=f"head_ids must be in 1 .. 320, not {count}"):
        load_model(folder, head_ids=count)
