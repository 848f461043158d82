"""Verification rules: which drafted tokens stand, and what comes after them."""

from __future__ import annotations

from paceline.errors import ConfigError
from paceline.registry import Registry
from paceline.types import SamplingParams
from paceline.verify.rule import Rule, Verdict

__all__ = ["Rule", "Verdict", "choose_rule", "default_rule", "rules"]

rules: Registry[Rule] = Registry(
    "rule",
    {
        name: f"paceline.verify.{name}:rule"
        for name in ("greedy", "token", "block", "coupled", "multi", "traversal")
    },
)


def default_rule(params: SamplingParams, trees: bool) -> str:
    """The rule of a request that names none."""
    if params.temperature == 0:
        return "greedy"
    if params.seed is not None:
        return "coupled"
    return "traversal" if trees else "block"


def choose_rule(name: str | None, params: SamplingParams, *, trees: bool) -> Rule:
    """The rule of that name, or the default; `trees` tells whether the drafter may propose trees.

    Raises:
        ConfigError: there is no such rule, or it would not keep this request's law.
    """
    rule = rules[name or default_rule(params, trees)]
    if rule.one_hot and params.temperature > 0:
        raise ConfigError(
            f"Rule '{rule.name}' is exact at temperature 0 only; at temperature "
            f"{params.temperature} use '{default_rule(params, trees)}'."
        )
    if trees and not rule.trees:
        raise ConfigError(
            f"Rule '{rule.name}' verifies chains and the drafter proposes trees; "
            f"use '{default_rule(params, trees)}'."
        )
    return rule
