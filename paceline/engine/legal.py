"""Drafts under a grammar: no rows for what cannot stand, and forced tokens for nothing."""

from __future__ import annotations

from paceline.errors import RequestError
from paceline.sampling.grammar import Matcher
from paceline.tree import Draft, DraftBuilder, PointMass


def under_grammar(draft: Draft, matcher: Matcher, budget: int) -> Draft:
    """The draft without illegal point masses, or what the grammar forces where that is longer.

    Along forced tokens the target's law is one-hot, so which draft is verified changes no law.
    Where the grammar reaches a limit the draft stays, and fails if the output gets there.
    """
    try:
        legal = without_illegal(draft, matcher)
        forced = matcher.forced(budget)
    except RequestError:
        return draft
    return Draft.chain(map(PointMass, forced)) if len(forced) > len(legal) else legal


def without_illegal(draft: Draft, matcher: Matcher) -> Draft:
    """Leave out point masses that the grammar forbids, and what stands below them.

    A token that was drawn stays, legal or not: it is a trial that the rule will reject, and to
    drop it for its value would bias the output.
    """
    builder, rows = DraftBuilder(), {0: 0}
    for row, trials in enumerate(draft.trials):
        if row not in rows:
            continue
        path = draft.tree.path_tokens(row)
        for trial in trials:
            child = draft.tree.children[row][trial.token]
            if not isinstance(trial, PointMass):
                law = draft.draft_probs[trial.law]
                rows[child] = builder.sampled(rows[row], trial.token, law)
            elif matcher.allows(path, trial.token):
                rows[child] = builder.point(rows[row], trial.token)
    return builder.build()
