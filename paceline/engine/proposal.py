"""One sequence's share of a pass, from propose to observe."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.drafters import DraftContext
from paceline.engine.scheduler import Work
from paceline.runtime import Rows
from paceline.tree import Draft


@dataclass(frozen=True, eq=False, slots=True)
class Proposal:
    """One sequence's work and its draft."""

    work: Work
    context: DraftContext
    draft: Draft

    @property
    def row_count(self) -> int:
        """Rows of the pass that are its own."""
        return self.work.rows + len(self.draft)

    @property
    def logit_tokens(self) -> int:
        """Of its tokens, counted from the last, those whose logits are wanted."""
        tells_prompt = self.context.params.prompt_logprobs is not None and not self.work.decodes
        return self.work.rows if tells_prompt else int(self.work.samples)

    @property
    def logit_count(self) -> int:
        """Rows of the pass's logits that are its own."""
        return self.logit_tokens + len(self.draft)

    @property
    def law_count(self) -> int:
        """Rows of the pass's laws that are its own, the last of its logits."""
        return len(self.draft) + 1 if self.work.samples else 0

    def pass_rows(self) -> Rows:
        """What it contributes to the pass."""
        sequence = self.work.sequence
        end = sequence.computed + self.work.rows
        return Rows(
            tokens=sequence.tokens[sequence.computed : end],
            start=sequence.computed,
            slots=sequence.table.slots(0, end + len(self.draft)),
            draft=self.draft,
            logit_tokens=self.logit_tokens,
        )
