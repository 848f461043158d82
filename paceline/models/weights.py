"""A model's tensors, loaded strictly: all that the spec wants, in shape, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from paceline.errors import ModelFileError
from paceline.kernels.packed import PackedWeight
from paceline.models.family import Family, file_name, stem_of, tensor_shapes
from paceline.models.packing import Packing
from paceline.models.progress import Progress
from paceline.models.spec import ModelSpec
from paceline.models.tensor_file import TensorFile

_TURNED = ("query", "key", "query_bias", "key_bias")
"""Tensors whose rows rope turns in pairs."""
_LOOKED_UP = ("positions",)
"""Matrices that no row is multiplied by."""


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

    def is_transposed(self, name: str) -> bool:
        """Whether the files keep the matrix as [I, O]."""
        return not self.gguf and stem_of(name) in self.family.hf_transposed

    @property
    def interleaves_rope(self) -> bool:
        """Whether the rows of a head are in rope's pairs, not halves."""
        return self.gguf and self.family.gguf_interleaves_rope

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
    total = sum(where[stored].tensors[stored].size_bytes for stored in set(wanted.values()))
    weights, done = dict[str, Tensor | PackedWeight](), 0
    for stored, names in sharing(wanted).items():
        weights |= _load(names, where[stored], loading, spec)
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
    for stored, names in sharing(wanted).items():
        file, shape = where[stored], where[stored].tensors[stored].shape
        fits = (sum(shapes[name][0] for name in names), *shapes[names[0]][1:])
        fits = fits[::-1] if loading.is_transposed(names[0]) else fits
        if shape != fits:
            raise ModelFileError(
                file.mapped.path,
                f"tensor '{stored}'",
                f"has the shape {list(shape)}; the model's sizes want {list(fits)}",
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


def sharing(wanted: Mapping[str, str]) -> dict[str, list[str]]:
    """Each of the files' tensors and the tensors that it holds, one below the other."""
    names: dict[str, list[str]] = {}
    for name, stored in wanted.items():
        names.setdefault(stored, []).append(name)
    return names


def _load(
    names: Sequence[str], file: TensorFile, loading: Loading, spec: ModelSpec
) -> Mapping[str, Tensor | PackedWeight]:
    """The tensors that share one of the file's, each dense."""
    stored = loading.stored_name(names[0])
    shapes = tensor_shapes(spec)
    heights = [shapes[name][0] for name in names]
    matrices = len(shapes[names[0]]) == 2 and stem_of(names[0]) not in _LOOKED_UP
    packing = loading.packing if matrices else None
    if packing is not None and not loading.is_transposed(names[0]):
        halves = loading.interleaves_rope and stem_of(names[0]) in _TURNED
        arrange = partial(to_halves, head_size=spec.head_size) if halves else None
        return dict(zip(names, packing.load(file, stored, heights, arrange), strict=True))
    tensor = file.load(stored, loading.dtype if packing is None else torch.float32)
    if loading.is_transposed(names[0]):
        tensor = tensor.t().contiguous()
    parts = dict(zip(names, torch.split(tensor, heights), strict=True))
    if packing is not None:
        kind = file.tensors[stored].format.name
        return {name: packing.pack(part, kind) for name, part in parts.items()}
    return {name: _as_wanted(name, part, loading, spec) for name, part in parts.items()}


def _as_wanted(name: str, tensor: Tensor, loading: Loading, spec: ModelSpec) -> Tensor:
    stem, family = stem_of(name), loading.family
    if loading.interleaves_rope and stem in _TURNED:
        tensor = to_halves(tensor, spec.head_size)
    if not loading.gguf and family.hf_norm_offset and stem.endswith("_norm"):
        tensor = tensor + family.hf_norm_offset
    return tensor.to(loading.device)


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
