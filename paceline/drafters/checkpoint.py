"""Heads on disk: a folder with config.json and model.safetensors, made for one target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.drafters.int8 import SCALE, restored, scale_shapes
from paceline.drafters.published import translate
from paceline.errors import ConfigError, ModelFileError
from paceline.files import write_whole
from paceline.models import LoadedModel
from paceline.models.dequantize import INT8_FORMATS, SAFETENSORS_FORMATS
from paceline.models.fields import Fields
from paceline.models.hf_config import read_config
from paceline.models.safetensors_file import SINGLE, read_safetensors
from paceline.models.safetensors_writer import write_safetensors

CONFIG = "config.json"
EDGE_BYTES = 1 << 20
FORMAT = 1
INT8 = "int8"
"""The key of config.json that says so."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A head that fits its target."""

    folder: Path
    config: Fields
    translated: Mapping[str, Tensor] | None = None
    """The tensors of a published layout, by our names."""

    @property
    def is_int8(self) -> bool:
        """Whether the matrices are kept as int8; raises ModelFileError."""
        return self.config.flag(INT8, False)

    def tensors(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
        """The tensors of these names and shapes, as float32.

        Raises:
            ModelFileError: the file is missing, truncated or hostile, or a tensor is missing,
                misshapen or not one of them.
        """
        if self.translated is not None:
            found = {name: tuple(tensor.shape) for name, tensor in self.translated.items()}
            check_shapes(self.folder, found, shapes)
            return dict(self.translated)
        scales = scale_shapes(shapes) if self.is_int8 else {}
        formats = SAFETENSORS_FORMATS | (INT8_FORMATS if scales else {})
        file = read_safetensors(self.folder / SINGLE, formats)
        check_shapes(
            self.folder, {n: t.shape for n, t in file.tensors.items()}, {**shapes, **scales}
        )
        loaded = {name: file.load(name, torch.float32) for name in (*shapes, *scales)}
        for name in (scale.removesuffix(SCALE) for scale in scales):
            loaded[name] = restored(loaded[name], loaded.pop(name + SCALE))
        return loaded


Shapes = Mapping[str, tuple[int, ...]]


def check_shapes(folder: Path, found: Shapes, wanted: Shapes) -> None:
    """See that the tensors are those wanted and no others; raises ModelFileError."""
    for name in sorted({*wanted, *found}):
        if found.get(name) != wanted.get(name):
            there = list(found[name]) if name in found else "missing"
            told = list(wanted[name]) if name in wanted else "no such tensor"
            raise ModelFileError(
                folder, f"tensor '{name:.80}'", f"is {there}; config.json wants {told}"
            )


def open_head(kind: str, source: str, target: LoadedModel, *, force: bool = False) -> Checkpoint:
    """The head of that kind at a path, or the one that ships with the target where none is named.

    Raises:
        ConfigError: there is none, it is of another kind, or it was made for another target;
            `force` lets pass a target of the same sizes and other weights.
        ModelFileError: config.json is missing or damaged.
    """
    folder = Path(source).expanduser() if source else shipped_heads(target.path) / kind
    if not (folder / CONFIG).is_file():
        where = f"{folder} holds none" if source else f"{target.name} ships none"
        raise ConfigError(
            f"Drafter '{kind}' needs a trained head and {where}; name its folder: {kind}:PATH, or"
            f" train one: paceline train {kind} --target {target.name} --data FILE --out PATH."
        )
    config = read_config(folder)
    translated = None
    if "kind" not in config:
        config, translated = translate(config, target.spec)
    found = config.text("kind")
    if found != kind:
        raise ConfigError(f"{folder} holds a head for the drafter '{found:.40}', not '{kind}'.")
    check_target(config, target, force=force)
    return Checkpoint(folder, config, translated)


def read_draft_ids(config: Fields, vocab_size: int) -> Tensor | None:
    """The target's ids that a head guesses, rising or not; None for all; raises ModelFileError."""
    ids = config.integers("draft_ids", [], high=vocab_size - 1)
    if len(set(ids)) != len(ids):
        raise config.fault("draft_ids", "name an id twice")
    return torch.tensor(ids) if ids else None


def check_target(config: Fields, target: LoadedModel, *, force: bool) -> None:
    """See that a head was made for this target; raises ConfigError."""
    made_for, spec = config.group("target"), target.spec
    sizes = ("hidden_size", "vocab_size", "num_layers")
    for size in sizes:
        own, wanted = getattr(spec, size), made_for.integer(size, high=1 << 31)
        if own != wanted:
            raise ConfigError(
                f"The head {config.path.parent} was made for {made_for.text('name')} with"
                f" {size} {wanted}; {target.name} has {own}."
            )
    known = "fingerprint" in made_for  # a published head does not say
    if known and not force and made_for.text("fingerprint") != fingerprint(target.path):
        raise ConfigError(
            f"The head {config.path.parent} was made for {made_for.text('name')}, and"
            f" {target.name} has other weights; add force=true to use it all the same."
        )


def option_string(folder: Path) -> str:
    """What `--draft` takes for a head; raises ModelFileError where there is none."""
    return f"{read_config(folder).text('kind')}:{folder}"


def save_head(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a head; raises OSError where the disk is full, and then the old one is still whole."""
    if tensors:
        write_safetensors(folder / SINGLE, tensors)
    text = json.dumps({"format": FORMAT, **config}, indent=1)
    write_whole(folder / CONFIG, text.encode() + b"\n")


def describe_target(target: LoadedModel) -> dict[str, Any]:
    """What config.json says of the model that a head was made for."""
    spec = target.spec
    return {
        "name": target.name if not Path(target.name).exists() else Path(target.name).name,
        "hidden_size": spec.hidden_size,
        "vocab_size": spec.vocab_size,
        "num_layers": spec.num_layers,
        "fingerprint": fingerprint(target.path),
    }


def shipped_heads(path: Path) -> Path:
    """Where the heads lie that come with a model: beside a file, inside a folder."""
    return path / "heads" if path.is_dir() else path.with_suffix(".heads")


def fingerprint(path: Path) -> str:
    """sha256 of a model's weights by the size, the first and the last MiB of each file."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for each in files:
        size = each.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with each.open("rb") as file:
            digest.update(file.read(EDGE_BYTES))
            file.seek(max(0, size - EDGE_BYTES))
            digest.update(file.read(EDGE_BYTES))
    return digest.hexdigest()
