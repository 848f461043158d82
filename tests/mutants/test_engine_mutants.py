"""Faults put into the engine's own code; the law or test that must see each is run on it.

On the engine as it is the same checks pass: so what is caught is the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from paceline.engine import scores, step
from paceline.engine.sequence import Sequence
from paceline.sampling.grammar import Matcher
from paceline.sampling.logprobs import raw_scores
from paceline.sampling.prefix import History
from paceline.structured import StructuredOutput
from paceline.tree import Draft, DraftBuilder, PointMass
from paceline.types import FinishReason
from tests.engines import run
from tests.habits import HABIT, LIKE, alone, ask, habits, logprobs_after

Patch = pytest.MonkeyPatch
DRAFTER = "model:like"
SEEDED: dict[str, Any] = {"temperature": 1.0, "seed": 6, "ignore_eos": True}
WORDS = ("abc", "b", "cab", "deadfaced")


def drafted(**settings: Any) -> Iterator[tuple[Any, list[int]]]:
    """(output, plain decoding's ids) of some prompts."""
    settings = {**SEEDED, **settings}
    outputs = run(habits(DRAFTER), *(ask(word, word, DRAFTER, **settings) for word in WORDS))
    for word, output in zip(WORDS, outputs, strict=True):
        yield output, alone(word, **settings)


def same_text(**settings: Any) -> bool:
    """The check of `test_penalties_per_position` and `test_stop_string_trims_all`."""
    return all(list(output.token_ids) == plain for output, plain in drafted(**settings))


def penalties_hold() -> bool:
    return same_text(frequency_penalty=1.5, repetition_penalty=1.3)


def penalties_without_path(monkeypatch: Patch) -> None:
    """Counts leave out the draft's own prefix."""
    for name in ("output_counts", "all_counts"):
        counts = getattr(History, name)
        monkeypatch.setattr(History, name, lambda self, path=(), counts=counts: counts(self))


def laws_before_penalties(monkeypatch: Patch) -> None:
    """Only the last row of a block is penalised: what is judged by the ratio is not."""
    honest = scores.node_prefixes

    def bare(proposal: Any) -> Iterator[Any]:
        prefixes = list(honest(proposal))
        yield from [prefixes[-1]] * len(prefixes)

    monkeypatch.setattr(scores, "node_prefixes", bare)


WORDS_IN_GRAMMAR = StructuredOutput(regex="(ab|cd|[ef]{2}){3,5}")


def grammar_holds() -> bool:
    """The check of `test_grammar_invalid_draft`."""
    settings = {**SEEDED, "structured": WORDS_IN_GRAMMAR, "ignore_eos": False}
    sent = [ask(word, word, DRAFTER, **settings, k=4) for word in WORDS]
    plain = [ask(word, word, **settings) for word in WORDS]
    outputs, wanted = run(habits(DRAFTER), *sent), run(habits(), *plain)
    return [(o.token_ids, o.error) for o in outputs] == [(o.token_ids, o.error) for o in wanted]


def grammar_not_copied(monkeypatch: Patch) -> None:
    """Nodes of a draft move the request's own state, which then is not where the output is."""

    def state_at(self: Matcher, path: tuple[int, ...]) -> Any:
        self._state.consume_tokens(list(path[-1:]))
        return self._state

    monkeypatch.setattr(Matcher, "_state_at", state_at)


def one_mask_for_all_nodes(monkeypatch: Patch) -> None:
    """Each node of a draft has the mask of its root."""
    honest = Matcher.mask_for
    monkeypatch.setattr(Matcher, "mask_for", lambda self, path: honest(self, ()))


def logprobs_hold() -> bool:
    """The check of `test_logprobs_target`."""
    for word, (output, _) in zip(WORDS, drafted(logprobs=0), strict=True):
        tokens = HABIT.tokenizer.encode(word)
        for entry in output.logprobs:
            if entry.logprob != float(logprobs_after(tokens)[entry.token]):
                return False
            tokens.append(entry.token)
    return True


def logprobs_of_the_draft(monkeypatch: Patch) -> None:
    """Accepted tokens tell what the draft model thought of them."""
    honest = scores.Told.tell_output

    def tell(self: Any, proposal: Any, path: Any, committed: Any) -> None:
        logits, laws = self._rows.get(proposal, (torch.empty(0), ()))
        for row in path:
            node = proposal.draft.tree.path_tokens(row - 1)
            sequence = proposal.work.sequence.tokens
            before = sequence[: len(sequence) - len(committed)]
            logits[len(logits) - len(laws) + row - 1] = LIKE.logits([*before, *node])
        honest(self, proposal, path, committed)

    monkeypatch.setattr(scores.Told, "tell_output", tell)


def logprobs_of_certainty(monkeypatch: Patch) -> None:
    """Accepted tokens are told as certain."""
    monkeypatch.setattr(scores, "raw_scores", lambda logits: raw_scores(logits) * 0)


def stops_hold() -> bool:
    """The check of `test_stop_string_trims_all`."""
    for at in (2, 4, 6):
        full = alone("b", **SEEDED)
        word = HABIT.tokenizer.decode(full[at : at + 2])
        end = HABIT.tokenizer.decode(full).index(word) + 2
        settings = {**SEEDED, "stop": (word,)}
        (output,) = run(habits(DRAFTER), ask("r", "b", DRAFTER, **settings))
        if list(output.token_ids) != full[:end] or output.counts.committed != end - 1:
            return False
    return True


def stop_of_the_text_alone(monkeypatch: Patch) -> None:
    """The text ends before the stop string; the block's other tokens are committed all the same."""

    def commit(self: Sequence, tokens: tuple[int, ...], drafted: int) -> tuple[int, ...]:
        reason: FinishReason | None = None
        for place, token in enumerate(tokens):
            self.tokens.append(token)
            if reason is None:
                reason = self._finish_after(token, drafted=place < drafted)
        self.finish_reason = reason
        return tokens

    monkeypatch.setattr(Sequence, "commit", commit)


MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], bool]]] = [
    (penalties_without_path, penalties_hold),
    (laws_before_penalties, penalties_hold),
    (grammar_not_copied, grammar_holds),
    (one_mask_for_all_nodes, grammar_holds),
    (logprobs_of_the_draft, logprobs_hold),
    (logprobs_of_certainty, logprobs_hold),
    (stop_of_the_text_alone, stops_hold),
]


@pytest.mark.parametrize(("mutant", "holds"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS])
def test_it_is_caught(
    monkeypatch: Patch, mutant: Callable[[Patch], None], holds: Callable[[], bool]
) -> None:
    assert holds()
    mutant(monkeypatch)
    assert not holds()


def without_illegal(draft: Draft, matcher: Matcher) -> Draft:
    """Cuts whatever the grammar forbids, drawn or not."""
    builder, row = DraftBuilder(), 0
    for at, (trial,) in enumerate(draft.trials[:-1]):
        if not matcher.allows(draft.tree.path_tokens(at), trial.token):
            break
        if isinstance(trial, PointMass):
            row = builder.point(row, trial.token)
        else:
            row = builder.sampled(row, trial.token, draft.draft_probs[trial.law])
    return builder.build()


def draws_survive() -> bool:
    """Drawn tokens that a grammar forbids stay as trials."""
    spec = StructuredOutput(regex="[ab]{4}")
    engine = habits()
    matcher = engine._grammars.compile(spec).matcher()
    law = torch.full((8,), 1 / 8, dtype=torch.float64)
    builder = DraftBuilder()
    builder.sampled(builder.sampled(0, 0, law), 5, law)
    return len(step.under_grammar(builder.build(), matcher, 2)) == 2


def test_a_drawn_token_cut_for_the_grammar_is_caught(monkeypatch: Patch) -> None:
    assert draws_survive()
    monkeypatch.setattr("paceline.engine.legal.without_illegal", without_illegal)
    assert not draws_survive()
