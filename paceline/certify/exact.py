"""Proofs by enumeration: the law of what several passes commit, against the target's own, by ==."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from paceline.certify.enumerate import (
    Enumerating,
    Known,
    NotEnumerableError,
    branches,
)
from paceline.certify.settings import RowLaws
from paceline.certify.toys import Model, Tokens, ToyDrafter
from paceline.tree import NO_DRAFT, Draft
from paceline.verify import Rule
from paceline.verify.laws import Dense

OutputLaw = dict[Tokens, Fraction]
"""The joint law of the first output tokens; outputs of probability 0 are left out."""


@dataclass(frozen=True)
class Case:
    """A rule at work: passes from an empty prefix until `tokens` tokens are there."""

    rule: Rule
    target: Model
    drafter: ToyDrafter
    tokens: int
    chooser: type[Enumerating] = Enumerating
    rows: RowLaws | None = None
    """How a pass gets the target's laws; None asks the target for one prefix after another."""

    def one_pass(self, output: Tokens, chooser: Enumerating) -> Tokens:
        """Draft and verify once; the tokens committed."""
        draft = self.drafter.propose(self.rule, output, chooser)
        return self.rule.verify_one(draft, self.laws(output, draft), chooser).tokens(draft)

    def laws(self, output: Tokens, draft: Draft) -> Sequence[Dense]:
        """The target's law after each row of the draft."""
        paths = tuple(draft.tree.path_tokens(row) for row in range(len(draft) + 1))
        if self.rows is not None:
            return self.rows(output, paths)
        return [self.target(output + path) for path in paths]

    def plain(self, output: Tokens, count: int, chooser: Enumerating) -> Tokens:
        """`count` tokens of plain decoding, under the same chooser."""
        text = output
        for _ in range(count):
            chooser.base = len(text)
            text += (self.rule.verify_one(NO_DRAFT, [self.target(text)], chooser).token,)
        return text[len(output) :]


def violation(case: Case) -> str | None:
    """What the case breaks of the rule's guarantee, or None: then it is proved for the case.

    Where the text is promised it is enough to know the law of plain decoding's own.
    """
    if not case.rule.reproducible:
        return law_violation(case)
    plain = replace(case, drafter=replace(case.drafter, shape=()))
    return text_violation(case) or law_violation(plain)


def law_violation(case: Case) -> str | None:
    """A first output whose probability is not the target's."""
    found, wanted = output_law(case), target_law(case.target, case.tokens)
    for output in sorted({*found, *wanted}):
        p, real = wanted.get(output, Fraction(0)), found.get(output, Fraction(0))
        if p != real:
            return f"{output} has probability {real} and not the target's {p}"
    return None


def output_law(case: Case) -> OutputLaw:
    """The joint law of the first `case.tokens` tokens over as many passes as that takes."""
    law: OutputLaw = {}
    nothing = Known()
    states: dict[tuple[Tokens, Hashable], tuple[Fraction, Known]]
    states = {((), nothing.key): (Fraction(1), nothing)}
    while states:
        # Shortest first: all branches that commit the same text and know the same have met by then.
        state = min(states, key=lambda state: len(state[0]))
        (output, _), (reached, known) = state, states.pop(state)
        if len(output) >= case.tokens:
            first = output[: case.tokens]
            law[first] = law.get(first, Fraction(0)) + reached
            continue
        one_pass = partial(case.one_pass, output)
        for branch in branches(one_pass, len(output), known, case.chooser):
            text = output + branch.outcome
            still = branch.known.since(len(text))
            before = states.get((text, still.key), (Fraction(0), still))[0]
            states[text, still.key] = (before + reached * branch.probability, still)
    return law


def target_law(target: Model, tokens: int, prefix: Tokens = ()) -> OutputLaw:
    """The joint law of the target's own next tokens."""
    if len(prefix) == tokens:
        return {prefix: Fraction(1)}
    return {
        output: p * rest
        for token, p in enumerate(target(prefix))
        if p > 0
        for output, rest in target_law(target, tokens, (*prefix, token)).items()
    }


def text_violation(case: Case) -> str | None:
    """A pass that commits other tokens than plain decoding would under the same noise.

    Each pass is checked after every prefix, so by induction any number of passes is.
    """
    for length in range(case.tokens):
        for output in target_law(case.target, length):
            if found := pass_violation(case, output):
                return f"after {output} {found}"
    return None


def pass_violation(case: Case, output: Tokens) -> str | None:
    """What one pass after an output commits that plain decoding does not."""

    def both(chooser: Enumerating) -> tuple[Tokens, Tokens]:
        tokens = case.one_pass(output, chooser)
        return tokens, case.plain(output, len(tokens), chooser)

    try:
        for branch in branches(both, len(output), chooser=case.chooser):
            passed, plain = branch.outcome
            if passed != plain:
                return f"a pass commits {passed}, plain decoding {plain}"
    except NotEnumerableError as error:  # two laws on one noise: one of them is wrong
        return str(error)
    return None


def expected_accepted(case: Case) -> Fraction:
    """E[accepted tokens] of the first pass."""

    def accepted(chooser: Enumerating) -> int:
        return len(case.one_pass((), chooser)) - 1

    return sum((b.outcome * b.probability for b in branches(accepted)), Fraction(0))


def coupled_acceptance(p: list[Fraction], q: list[Fraction]) -> Fraction:
    """P(one race has the same winner under p and q) = sum_v 1 / sum_u max(p_u/p_v, q_u/q_v).

    v wins both if every other exponential exceeds v's by the larger of the two factors; the time
    to the first of exponentials with rates r_u is exponential with rate sum r_u.
    """
    pairs = list(zip(p, q, strict=True))
    chance = Fraction(0)
    for x, y in pairs:
        if x and y:
            chance += 1 / sum((max(a / x, b / y) for a, b in pairs), Fraction(0))
    return chance
