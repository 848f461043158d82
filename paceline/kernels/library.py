"""The native library: found, loaded and typed; which instruction set and how many threads it uses.

The library is optional. `available()` says whether it is there; the torch reference serves where
it is not.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from paceline.errors import ConfigError, UnknownNameError

PATHS = ("portable", "avx2", "avxvnni", "avx512")
"""Instruction-set paths by the library's number, slowest first; all give the same bits."""

_ABI = 2
_FILE = Path(__file__).with_name("libpaceline.so")


class Weight(Structure):
    """pl_weight of csrc/paceline_native.h."""

    _fields_ = (
        ("format", c_int32),
        ("out_features", c_int32),
        ("in_features", c_int32),
        ("reserved", c_int32),
        ("data", c_void_p),
        ("bytes", c_int64),
    )


class LinearArgs(Structure):
    """pl_linear_args of csrc/paceline_native.h."""

    _fields_ = (
        ("x", c_void_p),
        ("x_stride", c_int64),
        ("y", c_void_p),
        ("y_stride", c_int64),
        ("bias", c_void_p),
        ("rows", c_int32),
        ("reserved", c_int32),
        ("scratch", c_void_p),
        ("scratch_bytes", c_int64),
    )


class OpStruct(Structure):
    """pl_op of csrc/paceline_native.h."""

    _fields_ = (
        ("kind", c_int32),
        ("out", c_int32),
        ("sources", c_int32 * 3),
        ("per_logit_row", c_int32),
        ("layer", c_int32),
        ("heads", c_int32),
        ("kv_heads", c_int32),
        ("head_size", c_int32),
        ("window", c_int32),
        ("eps", c_float),
        ("scale", c_float),
        ("soft_cap", c_float),
        ("vector", c_void_p),
        ("shift", c_void_p),
        ("weight", c_void_p),
    )


class RegisterStruct(Structure):
    """pl_register of csrc/paceline_native.h."""

    _fields_ = (("data", c_void_p), ("width", c_int64))


class SegmentStruct(Structure):
    """pl_segment of csrc/paceline_native.h."""

    _fields_ = (
        ("start", c_int32),
        ("rows", c_int32),
        ("context_slots", c_void_p),
        ("context", c_int64),
        ("parents", c_void_p),
    )


class PassStruct(Structure):
    """pl_pass of csrc/paceline_native.h."""

    _fields_ = (
        ("ids", c_void_p),
        ("positions", c_void_p),
        ("slots", c_void_p),
        ("logit_rows", c_void_p),
        ("rows", c_int32),
        ("logit_row_count", c_int32),
        ("segments", c_void_p),
        ("segment_count", c_int32),
        ("kv_type", c_int32),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("slot_count", c_int64),
        ("hidden", c_void_p),
        ("scratch", c_void_p),
        ("scratch_bytes", c_int64),
    )


_SIGNATURES = {
    "pl_abi": (c_int32, ()),
    "pl_has_path": (c_int32, (c_int32,)),
    "pl_path": (c_int32, ()),
    "pl_set_path": (c_int32, (c_int32,)),
    "pl_threads": (c_int32, ()),
    "pl_set_threads": (c_int32, (c_int32,)),
    "pl_packed_bytes": (c_int64, (c_int32, c_int32, c_int32)),
    "pl_source_bytes": (c_int64, (c_int32, c_int32, c_int32)),
    "pl_pack": (c_int32, (c_int32, c_int32, c_int32, c_void_p, c_int64, c_void_p, c_int64)),
    "pl_rows": (c_int32, (POINTER(Weight), c_void_p, c_int32, c_void_p)),
    "pl_scratch_bytes": (c_int64, (c_int32, c_int32)),
    "pl_linear": (c_int32, (POINTER(Weight), POINTER(LinearArgs))),
    "pl_run": (
        c_int32,
        (POINTER(OpStruct), c_int32, POINTER(RegisterStruct), POINTER(PassStruct)),
    ),
    "pl_read_all": (c_int32, (c_void_p, c_int64)),
    "pl_multiply": (c_int64, (c_int64,)),
}


@dataclass(frozen=True)
class Features:
    """What the library offers on this CPU."""

    paths: tuple[str, ...]
    """The paths that this build holds and this CPU runs, slowest first."""
    path: str
    """The path in force."""
    threads: int
    """Threads that share an operation, the caller included."""


def available() -> bool:
    """Whether the native library was built and loads."""
    return _load() is not None


def library() -> ctypes.CDLL:
    """The library; raises ConfigError where it was not built."""
    loaded = _load()
    if loaded is None:
        raise ConfigError(
            "The native kernels were not built; install a C++ compiler and reinstall paceline."
        )
    return loaded


def features() -> Features:
    """What the library offers and uses; raises ConfigError where it was not built."""
    lib = library()
    return Features(
        paths=tuple(name for number, name in enumerate(PATHS) if lib.pl_has_path(number)),
        path=PATHS[lib.pl_path()],
        threads=lib.pl_threads(),
    )


def use_path(name: str) -> None:
    """Compute with the named path from now on.

    Raises:
        UnknownNameError: there is no such path.
        ConfigError: this CPU does not run it, or the library was not built.
    """
    if name not in PATHS:
        raise UnknownNameError("kernel path", name, PATHS)
    if library().pl_set_path(PATHS.index(name)):
        runs = ", ".join(features().paths)
        raise ConfigError(f"This CPU does not run the kernel path '{name}'; it runs {runs}.")


def use_threads(count: int) -> None:
    """Share each operation among so many threads; raises ConfigError where they cannot be made."""
    if library().pl_set_threads(count):
        raise ConfigError(f"The kernels cannot have {count} threads; ask for 1 to 1024.")


@cache
def _load() -> ctypes.CDLL | None:
    file = Path(os.environ.get("PACELINE_LIBRARY", _FILE))
    if not file.exists():
        return None
    lib = ctypes.CDLL(str(file))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    if lib.pl_abi() != _ABI:
        raise ConfigError(f"{file} belongs to another version of paceline; reinstall it.")
    _check_override(lib)
    lib.pl_set_threads(torch.get_num_threads())  # as OMP_NUM_THREADS or the cores have it
    return lib


def _check_override(lib: ctypes.CDLL) -> None:
    wanted = os.environ.get("PACELINE_KERNELS")
    if wanted and wanted not in PATHS:
        raise UnknownNameError("kernel path (PACELINE_KERNELS)", wanted, PATHS)
    if wanted and not lib.pl_has_path(PATHS.index(wanted)):
        raise ConfigError(f"PACELINE_KERNELS={wanted}, which this CPU does not run.")
