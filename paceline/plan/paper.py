"""A plan on paper: a device by name, two models by size, an acceptance rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import ConfigError
from paceline.plan.costs import FREE, DraftCosts, roofline_costs
from paceline.plan.devices import Device
from paceline.plan.lengths import Costs, Length, break_even_alpha_at, by_batch, switch_off_batch
from paceline.plan.roofline import Weights, flat_rows

MOST_PARAMS = 1e15
MOST_KV_BYTES = 1e9
LARGEST_BATCH = 2**20
SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Target and draft by size; no draft parameters mean a lookup, which costs nothing here."""

    target_params: float
    target_bits: float = 16.0
    """Per weight."""
    draft_params: float = 0.0
    draft_bits: float = 16.0
    kv_bytes_per_token: float = 0.0
    """Keys and values of one token of the target's context."""

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name, params in (("target", self.target_params), ("draft", self.draft_params)):
            if not 1 <= params <= MOST_PARAMS and (name, params) != ("draft", 0):
                raise ConfigError(
                    f"The {name} must have 1 to {MOST_PARAMS:.0e} parameters, not {params:g}."
                )
        if not 0 <= self.kv_bytes_per_token <= MOST_KV_BYTES:
            raise ConfigError(
                f"A token of context takes 0 to {MOST_KV_BYTES:.0e} bytes of keys and values, "
                f"not {self.kv_bytes_per_token:g}."
            )
        if not 1 <= self.target_bits <= 32 or not 1 <= self.draft_bits <= 32:
            raise ConfigError("A weight has 1 to 32 bits.")

    @property
    def target(self) -> Weights:
        """What the target's pass reads and multiplies."""
        return Weights(
            weight_bytes=self.target_params * self.target_bits / 8, params=self.target_params
        )

    @property
    def draft(self) -> Weights:
        """What the draft's pass reads and multiplies."""
        return Weights(
            weight_bytes=self.draft_params * self.draft_bits / 8, params=self.draft_params
        )


@dataclass(frozen=True)
class PaperPlan:
    """What to run on the device, and why."""

    device: Device
    costs: Costs
    lengths: tuple[Length, ...]
    """The best at each batch size."""
    break_even: tuple[float | None, ...]
    """The alpha above which one drafted token pays, at each batch size; None: never."""
    flat_rows: float
    switch_off_batch: int | None
    fits: bool
    """Whether both models fit the device's memory."""


def costs_on(device: Device, pair: Pair, context_tokens: float = 0.0) -> Costs:
    """The roofline's costs of both models.

    70e9 and 1e9 parameters in 16 bits on an H100 at .8 of 3.35 TB/s: 52.2 ms a target pass, .746 a
    draft pass.
    """
    target = roofline_costs(device.machine, pair.target, pair.kv_bytes_per_token)
    drafts = FREE
    if pair.draft_params:
        drafts = DraftCosts(passes=roofline_costs(device.machine, pair.draft))
    return Costs(target=target, draft=drafts, context_tokens=context_tokens)


def plan_on_paper(
    device: Device,
    pair: Pair,
    alphas: Sequence[float],
    batches: Sequence[int],
    context_tokens: float = 0.0,
    max_k: int = 16,
) -> PaperPlan:
    """The best draft length at each batch size; alphas are by position, the last for all further.

    Raises:
        ConfigError: no batch size, one outside 1 .. LARGEST_BATCH, or no probability among the
            alphas.
    """
    if not batches or not all(1 <= batch <= LARGEST_BATCH for batch in batches):
        raise ConfigError(f"A plan needs batch sizes between 1 and {LARGEST_BATCH}.")
    if not alphas or not all(0 <= alpha <= 1 for alpha in alphas):
        raise ConfigError("A plan needs acceptance rates between 0 and 1.")
    costs = costs_on(device, pair, context_tokens)
    lengths = by_batch(alphas, sorted(set(batches)), costs, max_k)
    return PaperPlan(
        device=device,
        costs=costs,
        lengths=tuple(lengths),
        break_even=tuple(break_even_alpha_at(one.batch, 1, costs) for one in lengths),
        flat_rows=flat_rows(device.machine, pair.target),
        switch_off_batch=switch_off_batch(alphas, costs, max(batches), max_k),
        fits=pair.target.weight_bytes + pair.draft.weight_bytes <= device.memory_bytes,
    )


def parse_count(text: str) -> float:
    """A number of parameters: 7e9, 7B, 0.5b or 500M; raises ConfigError."""
    number, scale = text.strip().lower(), 1.0
    if number and number[-1] in SUFFIXES:
        number, scale = number[:-1], SUFFIXES[number[-1]]
    try:
        return float(number) * scale
    except ValueError as error:
        raise ConfigError(f"'{text}' is no number of parameters; write 7B, 500M or 7e9.") from error
