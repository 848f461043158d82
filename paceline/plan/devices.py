"""Machines by name, for plans on paper: what their makers state, each with its source.

Figures are dense (no structured sparsity) 16-bit matrix operations, a multiply and an add counting
as two, and peak memory bandwidth. Makers' peaks are not what software reaches: `SUSTAINED_BYTES`
and `SUSTAINED_FLOPS` of them are assumed, and `paceline plan` on the machine itself measures.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.errors import UnknownNameError
from paceline.plan.roofline import Machine

SUSTAINED_BYTES = 0.8
"""Of peak bandwidth: what good kernels read weights at (measured here: 44 to 50 of 54 GB/s)."""
SUSTAINED_FLOPS = 0.6
"""Of peak arithmetic, for the short and wide products of decoding."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One machine and where its figures stand."""

    title: str
    peak_bytes_per_s: float
    peak_flops_per_s: float
    memory_bytes: float
    source: str

    @property
    def machine(self) -> Machine:
        """What it is taken to sustain."""
        return Machine(
            bytes_per_s=SUSTAINED_BYTES * self.peak_bytes_per_s,
            flops_per_s=SUSTAINED_FLOPS * self.peak_flops_per_s,
        )


def row(title: str, gb_per_s: float, tflops: float, gib: float, source: str) -> Device:
    """A line of the table, in the units of data sheets."""
    return Device(
        title=title,
        peak_bytes_per_s=gb_per_s * 1e9,
        peak_flops_per_s=tflops * 1e12,
        memory_bytes=gib * 2**30,
        source=source,
    )


APPLE = "Apple's technical specifications; FP32 arithmetic, cores x clock"
CORES = "the maker's specifications; arithmetic is cores x all-core clock x operations a cycle"

DEVICES = {
    "b200": row("NVIDIA B200 SXM", 8000, 2250, 180, "NVIDIA DGX B200 data sheet, per GPU"),
    "h200": row("NVIDIA H200 SXM", 4800, 989, 141, "NVIDIA H200 data sheet"),
    "h100": row("NVIDIA H100 SXM", 3350, 989, 80, "NVIDIA H100 data sheet"),
    "h100-pcie": row("NVIDIA H100 PCIe", 2000, 756, 80, "NVIDIA H100 data sheet"),
    "a100": row("NVIDIA A100 SXM 80 GB", 2039, 312, 80, "NVIDIA A100 data sheet"),
    "a100-40gb": row("NVIDIA A100 40 GB", 1555, 312, 40, "NVIDIA A100 data sheet"),
    "l40s": row("NVIDIA L40S", 864, 362, 48, "NVIDIA L40S data sheet"),
    "l4": row("NVIDIA L4", 300, 121, 24, "NVIDIA L4 data sheet"),
    "t4": row("NVIDIA T4", 320, 65, 16, "NVIDIA T4 data sheet"),
    "rtx-4090": row("NVIDIA RTX 4090", 1008, 165.2, 24, "NVIDIA Ada whitepaper"),
    "rtx-3090": row("NVIDIA RTX 3090", 936, 71, 24, "NVIDIA GA102 whitepaper"),
    "mi300x": row("AMD Instinct MI300X", 5300, 1307, 192, "AMD Instinct MI300X data sheet"),
    "m1": row("Apple M1, 8-core GPU", 68, 2.6, 16, APPLE),
    "m2-max": row("Apple M2 Max, 38-core GPU", 400, 13.6, 96, APPLE),
    "m3-ultra": row("Apple M3 Ultra, 80-core GPU", 819, 28.2, 512, APPLE),
    "m4-max": row("Apple M4 Max, 40-core GPU", 546, 18.4, 128, APPLE),
    "epyc-9654": row("AMD EPYC 9654 (Zen 4), 96 cores, bf16", 460.8, 21.8, 6144, CORES),
    "ryzen-7950x": row("AMD Ryzen 9 7950X (Zen 4), 16 cores, bf16", 83.2, 4.6, 128, CORES),
    "xeon-8480": row("Intel Xeon 8480+, 56 cores, AMX bf16", 307.2, 114.7, 4096, CORES),
}


def device(name: str) -> Device:
    """The device of that name, capitals and spaces aside; raises UnknownNameError.

    H100 at .8 and .6 of its peaks: 2.68 TB/s and 593 TFLOPS.
    """
    key = name.strip().lower().replace(" ", "-").replace("_", "-")
    if key not in DEVICES:
        raise UnknownNameError("device", name, DEVICES)
    return DEVICES[key]
