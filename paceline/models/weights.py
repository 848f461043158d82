"""A model's tensors, loaded strictly: all that the spec wants, in shape, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.errors import ModelFileError
from paceline.kernels.packed import PackedWeight
from paceline.models.family import Family, file_name, tensor_shapes
from paceline.models.packing import Packing
from paceline.models.progress import Progress
from paceline.models.spec import ModelSpec
from paceline.models.tensor_file import TensorFile


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How a model's tensors are brought in."""

    family: Family
    gguf: bool
    """Whether the files have GGUF's names and order of rows."""
    dtype: torch.dtype
    device: str
    packing: Packing | None = None
    """How matrices are packed for the native kernels; None: they are tensors of `dtype`."""
    progress: Progress | None = None

    def stored_name(self, name: str) -> str:
        """The files' name of a tensor of `tensor_shapes`."""
        return file_name(self.family.gguf_names if self.gguf else self.family.hf_names, name)

    def may_ignore(self, stored: str, spec: ModelSpec) -> bool:
        """Whether a tensor that no one asked for does no harm: it repeats what is known."""
        tied = spec.tie_embeddings and stored == self.stored_name("head")
        return tied or stored.endswith(self.family.redundant)


def load_weights(
    spec: ModelSpec, files: Sequence[TensorFile], loading: Loading
) -> dict[str, Tensor | PackedWeight]:
    """The tensors of `tensor_shapes(spec)`, one at a time, so that no second model is in memory.

    Raises:
        ModelFileError: a tensor is missing, misshapen or one the spec does not know.
    """
    where = {stored: file for file in files for stored in file.tensors}
    wanted = {name: loading.stored_name(name) for name in tensor_shapes(spec)}
    missing = [stored for stored in wanted.values() if stored not in where]
    if missing:
        problem = f"is missing{_more(missing)}"
        raise ModelFileError(files[0].mapped.path, f"tensor '{missing[0]}'", problem)
    check_tensors(spec, wanted, where, loading)
    total = sum(where[stored].tensors[stored].size_bytes for stored in wanted.values())
    weights, done = dict[str, Tensor | PackedWeight](), 0
    for name, stored in wanted.items():
        weights[name] = _load(name, where[stored], loading, spec)
        done += where[stored].tensors[stored].size_bytes
        if loading.progress is not None:
            loading.progress(done, total, "load")
    return weights


def check_tensors(
    spec: ModelSpec, wanted: Mapping[str, str], where: Mapping[str, TensorFile], loading: Loading
) -> None:
    """See that the tensors wanted fit the spec and that there are no others.

    Raises:
        ModelFileError: a tensor is misshapen or unknown.
    """
    shapes = tensor_shapes(spec)
    for name, stored in wanted.items():
        file, shape = where[stored], where[stored].tensors[stored].shape
        if shape != shapes[name]:
            raise ModelFileError(
                file.mapped.path,
                f"tensor '{stored}'",
                f"has the shape {list(shape)}; the model's sizes want {list(shapes[name])}",
            )
    known = set(wanted.values())
    unknown = [s for s in where if s not in known and not loading.may_ignore(s, spec)]
    if unknown:
        raise ModelFileError(
            where[unknown[0]].mapped.path,
            f"tensor '{unknown[0]:.80}'",
            f"is not one of a {spec.family} model of these sizes{_more(unknown)}",
        )


def to_halves(rows: Tensor, head_size: int) -> Tensor:
    """rows[heads · D, …] with each head's rows in rope's pairs -> in rope's halves."""
    pairs = rows.view(-1, head_size // 2, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


def _load(name: str, file: TensorFile, loading: Loading, spec: ModelSpec) -> Tensor | PackedWeight:
    stored = loading.stored_name(name)
    turned = name.partition(".")[0] in ("query", "key", "query_bias", "key_bias")
    halves = turned and loading.gguf and loading.family.gguf_interleaves_rope

    def arrange(rows: Tensor) -> Tensor:
        return to_halves(rows, spec.head_size) if halves else rows

    if loading.packing is not None and len(file.tensors[stored].shape) == 2:
        return loading.packing.load(file, stored, arrange if halves else None)
    return arrange(file.load(stored, loading.dtype)).to(loading.device)


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
