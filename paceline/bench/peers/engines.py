"""The peers by name, with their options: `openvino:python=PATH:draft=FOLDER`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from paceline.bench.peers.in_python import OpenVINO, Transformers
from paceline.bench.peers.llama_server import LlamaCpp
from paceline.bench.peers.race import Contender, Job, Lineup
from paceline.bench.peers.vllm_server import VLLM
from paceline.errors import ConfigError, UnknownNameError
from paceline.registry import OptionString


class Peer(Protocol):
    """An engine's options."""

    def lineup(self, job: Job) -> Lineup:
        """Its configurations; raises ConfigError where it cannot run the job."""


ENGINES: dict[str, type[Peer]] = {
    "llama.cpp": LlamaCpp,
    "openvino": OpenVINO,
    "transformers": Transformers,
    "vllm": VLLM,
}


def peer_of(text: str) -> tuple[str, Peer]:
    """An option string's name and peer; raises ConfigError."""
    parsed = OptionString.parse(text)
    if parsed.name not in ENGINES:
        raise UnknownNameError("engine", parsed.name, ENGINES)
    peer: Peer = parsed.build(ENGINES[parsed.name], "engine")
    return parsed.name, peer


def enter(asked: Sequence[str], job: Job) -> tuple[list[Contender], list[str], dict[str, str]]:
    """Contenders of the engines that are here, their versions, and why others are left out.

    Raises:
        ConfigError: an option is wrong, or none is here.
    """
    contenders, versions, skipped = list[Contender](), list[str](), dict[str, str]()
    for name, peer in [peer_of(text) for text in asked]:
        try:
            lineup = peer.lineup(job)
        except ConfigError as error:
            skipped[name] = str(error)
            continue
        contenders += lineup.contenders
        versions.append(f"{name}: {lineup.version}")
        skipped |= {f"{name}, {way}": why for way, why in lineup.skipped.items()}
    if not contenders:
        told = " ".join(f"{name}: {why}" for name, why in skipped.items())
        raise ConfigError(f"There is no other engine to compare with. {told}")
    return contenders, versions, skipped
