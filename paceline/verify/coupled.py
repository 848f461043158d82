"""The coupled rule: one noise per position, shared by target and drafters, in every pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.chooser import Chooser, Draw, Keyed, Law
from paceline.chooser.race import finish, winners
from paceline.tree import Draft
from paceline.verify.laws import as_law, as_rows
from paceline.verify.rule import Laws, Verdict, follow, rows_by_draft


class Coupled:
    """Daliri, Musco, Suresh 2024 (arXiv 2408.07978), on trees too.

    The target's token at output position t is argmax log p_t + g_t and is always the one emitted,
    so the text is a function of seed, position and law: the same with any drafter or with none.
    A drafter that runs the same race on q agrees with probability >= (1 - TV) / (1 + TV).
    """

    name = "coupled"
    trees = True
    sampled = False
    reproducible = True
    one_hot = False

    def draw(self, chooser: Chooser, law: Law, draw: Draw) -> int:
        """The winner of the race on the drafter's law; for trial j the one j places behind."""
        return chooser.race(law, draw.position, draw.trial)

    def verify_one(self, draft: Draft, target_probs: Sequence[Law], chooser: Chooser) -> Verdict:
        """Follow the child that equals the target's token; emit that token in any case."""

        def target(row: int) -> int:
            return chooser.race(as_law(target_probs[row]), chooser.base + draft.tree.depths[row])

        return follow(draft, target)

    def verify_batch(
        self, drafts: Sequence[Draft], target_probs: Laws, choosers: Sequence[Keyed]
    ) -> list[Verdict]:
        """All races of target_probs[N, V] at once, then walks over ids."""
        keys = [
            chooser.race_key(chooser.base + depth)
            for draft, chooser in zip(drafts, choosers, strict=True)
            for depth in draft.tree.depths
        ]
        laws = as_rows(target_probs)
        found = finish(laws, keys) if isinstance(laws, np.ndarray) else winners(laws, keys)
        tokens = rows_by_draft(drafts, found)
        return [follow(d, own.__getitem__) for d, own in zip(drafts, tokens, strict=True)]


rule = Coupled()
