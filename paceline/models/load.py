"""A name -> a model ready to run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from paceline.errors import ConfigError, ModelFileError, UnsupportedModelError
from paceline.kernels.batch import Batch, KVTensors, PassOutput
from paceline.kernels.library import available, library
from paceline.kernels.native import NativeProgram
from paceline.kernels.ops import Program
from paceline.kernels.reference import run
from paceline.models.decoder import Weights, build_program
from paceline.models.families import families
from paceline.models.family import Family
from paceline.models.fields import Fields
from paceline.models.gguf_file import read_gguf
from paceline.models.hf_config import read_config
from paceline.models.packing import Packing
from paceline.models.progress import Progress
from paceline.models.pull import resolve
from paceline.models.safetensors_file import read_folder
from paceline.models.spec import ModelSpec
from paceline.models.tensor_file import TensorFile
from paceline.models.tokenizer import Tokenizer
from paceline.models.weights import Loading, load_weights

Execute = Callable[[Batch, KVTensors], PassOutput]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
KV_DTYPES = {**DTYPES, "float16": torch.float16, "int8": torch.int8}


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadedModel:
    """A decoder with its weights and tokenizer. Immutable; keys and values are the caller's."""

    name: str
    path: Path
    spec: ModelSpec
    tokenizer: Tokenizer
    weights: Weights = field(repr=False)
    """Tensors and packed matrices by the names of `family.tensor_shapes`; the program shares
    them."""
    program: Program = field(repr=False)
    execute: Execute = field(repr=False)
    """Runs the program: in torch, or in one native call."""
    dtype: torch.dtype
    device: str

    @property
    def weight_bytes(self) -> int:
        """Bytes the weights take in memory."""
        return sum(weight.nbytes for weight in self.weights.values())

    def kv_bytes_per_token(self, kv_dtype: str = "auto") -> int:
        """Bytes that a token's keys and values take, scales included."""
        return sum(tensor.nbytes for tensor in self.allocate_kv(1, kv_dtype).tensors)

    @property
    def native(self) -> bool:
        """Whether the native library runs its passes."""
        return isinstance(getattr(self.execute, "__self__", None), NativeProgram)

    def keeping(self, layers: Collection[int], head_ids: int | None = None) -> LoadedModel:
        """The model of some of its layers: weights shared, and keys and values by the same layers.

        Raises:
            ConfigError: no layer is kept, or one that the model does not have; or head_ids is out
                of range.
        """
        known = range(self.spec.num_layers)
        if not layers or not set(layers) <= set(known):
            raise ConfigError(
                f"Keep some of the layers 0 .. {known.stop - 1} of {self.name}, not"
                f" {sorted(layers)}."
            )
        ids = _head_ids(head_ids, self.spec)
        program = build_program(self.spec, self.weights, ids, layers)
        execute = executor(program, self.native)
        return dataclasses.replace(self, program=program, execute=execute)

    def forward(self, batch: Batch, kv: KVTensors) -> PassOutput:
        """Run one pass; writes the rows' keys and values to their slots of `kv`."""
        return self.execute(batch, kv)

    def allocate_kv(self, num_slots: int, kv_dtype: str = "auto") -> KVTensors:
        """Zeroed keys and values for so many tokens.

        `kv_dtype` is float32, float16, bfloat16, int8 (a scale per token and head), or auto: as
        the model computes; raises ConfigError for another.
        """
        spec = self.spec
        shape = (spec.num_layers, num_slots, spec.num_kv_heads, spec.head_size)
        return KVTensors.zeros(shape, _kv_dtype(kv_dtype, self.dtype), self.device)


def load_model(
    source: str | Path,
    *,
    dtype: str = "auto",
    device: str = "cpu",
    kernels: str = "auto",
    quantize: str | None = None,
    head_ids: int | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load a model by alias, hub id, folder or GGUF file.

    Args:
        source: what `resolve` takes.
        dtype: float32, bfloat16, or auto: native kernels take matrices as they are stored and
            compute in float32; torch takes float32 on a CPU, else bfloat16.
        device: cpu, cuda or cuda:N.
        kernels: torch; native: the compiled library, on a CPU; auto: native where it can be.
        quantize: int4 or int8, which native kernels alone compute with; None leaves the matrices
            as they are stored.
        head_ids: compute the logits of the first so many ids alone, which a tokenizer learnt
            first, hence mostly the frequent ones (FR-Spec, arXiv 2502.14856).
        progress: called with (done bytes, total bytes, what).

    Raises:
        ConfigError: an unknown dtype, device or kind of kernels, or one that is not here.
        UnknownNameError, DownloadError: as `resolve` raises them.
        ModelFileError: a damaged, truncated or hostile file, or tensors that do not fit.
        UnsupportedModelError: an architecture or number format without an implementation.
    """
    _check_device(device)
    number_format = _dtype(dtype, device)
    native = _native(kernels, device)
    kind = _kind(dtype, quantize, native)
    packing = Packing(kind) if native else None
    path = resolve(str(source), progress=progress)
    parts = _read_hf(path) if path.is_dir() else _read_gguf(path)
    spec = _with_special_ids(parts)
    loading = Loading(
        family=parts.family,
        gguf=not path.is_dir(),
        dtype=number_format,
        device=device,
        packing=packing,
        progress=progress,
    )
    weights = load_weights(spec, parts.files, loading)
    program = build_program(spec, weights, _head_ids(head_ids, spec))
    return LoadedModel(
        name=str(source),
        path=path,
        spec=spec,
        tokenizer=parts.tokenizer,
        weights=weights,
        program=program,
        execute=executor(program, native),
        dtype=number_format,
        device=device,
    )


def executor(program: Program, native: bool) -> Execute:
    """What runs a program: one native call, or torch."""
    return NativeProgram(program).run if native else partial(run, program)


@dataclass(frozen=True, eq=False)
class Described:
    """A model as its files describe it."""

    name: str
    spec: ModelSpec
    tokenizer: Tokenizer
    file_bytes: int
    """Of its tensors, as they are stored."""


def describe(source: str | Path, progress: Progress | None = None) -> Described:
    """Read what a model's files say of it, and no weights; raises as `load_model` does."""
    path = resolve(str(source), progress=progress)
    parts = _read_hf(path) if path.is_dir() else _read_gguf(path)
    files = path.glob("*.safetensors") if path.is_dir() else [path]
    file_bytes = sum(file.stat().st_size for file in files)
    return Described(str(source), _with_special_ids(parts), parts.tokenizer, file_bytes)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the headers of a model's files say."""

    path: Path
    family: Family
    spec: ModelSpec
    tokenizer: Tokenizer
    files: list[TensorFile]


def _read_hf(folder: Path) -> _Parts:
    config = read_config(folder)
    family = _family(config, "model_type")
    return _Parts(
        folder,
        family,
        family.read_hf(config),
        Tokenizer.from_hf_folder(folder),
        [file.renamed(family.full_hf_name) for file in read_folder(folder)],
    )


def _read_gguf(path: Path) -> _Parts:
    gguf = read_gguf(path)
    family = _family(gguf.fields, "general.architecture")
    keys = dataclasses.replace(gguf.fields, prefix=f"{family.name}.")
    spec = family.read_gguf(keys, gguf.file.tensors)
    return _Parts(path, family, spec, Tokenizer.from_gguf(gguf.metadata, path), [gguf.file])


def _family(fields: Fields, key: str) -> Family:
    name = fields.text(key)
    if name not in families:
        raise UnsupportedModelError(
            f"{fields.path}: {key} '{name:.80}' is not supported; known: {', '.join(families)}."
        )
    return families[name]


def _with_special_ids(parts: _Parts) -> ModelSpec:
    """The spec with the tokenizer's ids, every one of which has a row in the embedding."""
    tokenizer, spec = parts.tokenizer, parts.spec
    if tokenizer.vocab_size > spec.vocab_size:
        raise ModelFileError(
            parts.path,
            "vocab_size",
            f"{spec.vocab_size} is fewer than the tokenizer's {tokenizer.vocab_size} ids",
        )
    return dataclasses.replace(spec, bos_id=tokenizer.bos_id, eos_ids=tokenizer.eos_ids)


def _check_device(name: str) -> None:
    match = re.fullmatch(r"cpu|cuda(?::([0-9]+))?", name)
    if match is None:
        raise ConfigError(f"device must be cpu, cuda or cuda:N, not '{name}'.")
    count = torch.cuda.device_count()
    if name != "cpu" and int(match[1] or 0) >= count:
        raise ConfigError(
            f"There is no device '{name}': torch {torch.__version__} sees {count} CUDA devices; "
            "choose cpu, or install a torch built for CUDA and the GPU's driver."
        )


def _native(kernels: str, device: str) -> bool:
    """Whether the compiled library computes; raises ConfigError where it should and cannot."""
    if kernels not in ("auto", "torch", "native"):
        raise ConfigError(f"kernels must be auto, torch or native, not '{kernels}'.")
    if kernels == "native":
        if device != "cpu":
            raise ConfigError(f"Native kernels run on a CPU, not on '{device}'; use kernels torch.")
        library()
    return kernels == "native" or (kernels == "auto" and device == "cpu" and available())


def _head_ids(count: int | None, spec: ModelSpec) -> int | None:
    if count is not None and not 0 < count <= spec.vocab_size:
        raise ConfigError(f"head_ids must be in 1 .. {spec.vocab_size}, not {count}.")
    return count


def _kind(dtype: str, quantize: str | None, native: bool) -> str | None:
    """What matrices are packed as."""
    if quantize is None:
        return None if dtype == "auto" else dtype
    if dtype != "auto":
        raise ConfigError(f"quantize {quantize} and dtype {dtype} exclude each other; give one.")
    if not native:
        raise ConfigError(
            f"quantize {quantize} needs the native kernels, which run on a CPU; `paceline doctor`"
            " tells whether they were built."
        )
    return quantize


def _kv_dtype(name: str, own: torch.dtype) -> torch.dtype:
    if name not in ("auto", *KV_DTYPES):
        raise ConfigError(f"kv_dtype must be auto, {', '.join(KV_DTYPES)}, not '{name}'.")
    return own if name == "auto" else KV_DTYPES[name]


def _dtype(name: str, device: str) -> torch.dtype:
    if name == "auto":
        name = "float32" if device == "cpu" else "bfloat16"
    if name not in DTYPES:
        raise ConfigError(f"dtype must be auto, {' or '.join(DTYPES)}, not '{name}'.")
    return DTYPES[name]
