"""Whether a target and its drafter go together: what their files say, and ten seconds of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from paceline.bench.decoding import Run, run_batch
from paceline.engine import LLM
from paceline.errors import VocabularyError
from paceline.models import Described, check_same_vocabulary
from paceline.plan.beta import Interval
from paceline.plan.costs import CostCurve, DraftCosts
from paceline.plan.estimators import Counts, constant_alpha
from paceline.plan.lengths import Costs, Length, best_length
from paceline.types import SamplingParams, Speculation

LENGTH = 4
"""Tokens a draft."""
TOKENS = 48
"""Of each measured run."""
OVERHEAD = 1.25
"""Memory that a model takes over its files, packing and passes included."""


@dataclass(frozen=True)
class PairFinding:
    """One thing looked at."""

    what: str
    told: str
    works: bool = True
    mend: str = ""
    """What to do about it; "" where there is nothing to do."""


def compare(target: Described, draft: Described, free_bytes: int) -> list[PairFinding]:
    """What the files say of the pair, before either is loaded."""
    return [
        vocabulary(target, draft),
        special_tokens(target, draft),
        context(target, draft),
        sizes(target, draft),
        memory((target, draft), free_bytes),
    ]


def vocabulary(target: Described, draft: Described) -> PairFinding:
    """Whether each id means the same text to both."""
    sizes = target.spec.vocab_size, draft.spec.vocab_size
    try:
        check_same_vocabulary(target.tokenizer, draft.tokenizer, *sizes)
    except VocabularyError as error:
        told, _, mend = str(error).partition("; ")
        return PairFinding("vocabulary", told, works=False, mend=mend)
    return PairFinding("vocabulary", f"the same {target.tokenizer.vocab_size} ids")


def special_tokens(target: Described, draft: Described) -> PairFinding:
    """Whether both end at the same ids."""
    ours, theirs = sorted(target.spec.eos_ids), sorted(draft.spec.eos_ids)
    if ours == theirs:
        return PairFinding("special tokens", f"both end at {ours}")
    mend = "harmless for the text; a draft of the same training ends more drafts rightly"
    return PairFinding(
        "special tokens", f"the target ends at {ours}, the draft at {theirs}", True, mend
    )


def context(target: Described, draft: Described) -> PairFinding:
    """Whether the draft reaches as far as the target."""
    ours, theirs = target.spec.max_model_len, draft.spec.max_model_len
    if theirs >= ours:
        return PairFinding("context", f"{ours} and {theirs} tokens")
    mend = f"beyond {theirs} tokens nothing is drafted; add a drafter that looks text up"
    return PairFinding("context", f"{ours} tokens, the draft {theirs}", True, mend)


def sizes(target: Described, draft: Described) -> PairFinding:
    """How much larger the target is: what a draft costs, nearly."""
    share = draft.file_bytes / target.file_bytes
    told = (
        f"hidden size {target.spec.hidden_size} and {draft.spec.hidden_size}; "
        f"the draft's file is {share:.2f} of the target's"
    )
    mend = "" if share < 0.5 else "a smaller or a more strongly quantised draft costs less"
    return PairFinding("size", told, True, mend)


def memory(models: Sequence[Described], free_bytes: int) -> PairFinding:
    """Whether they fit what is free; 0 free bytes mean that nobody knows."""
    needed = OVERHEAD * sum(model.file_bytes for model in models)
    told = f"about {needed / 2**30:.1f} GiB, of {free_bytes / 2**30:.1f} GiB free"
    if free_bytes and needed > free_bytes:
        mend = "take smaller models, or --quantize int4"
        return PairFinding("memory", told, works=False, mend=mend)
    return PairFinding("memory", told if free_bytes else told.partition(",")[0])


@dataclass(frozen=True, kw_only=True)
class PairSpeed:
    """What ten seconds told."""

    alpha: Interval
    """Acceptance of a drafted token, all before it accepted; 90 %."""
    draft_ms: float
    """A drafted token."""
    plain_ms: float
    """A pass of one row."""
    verify_ms: float
    """A pass of LENGTH + 1 rows."""
    best: Length

    @property
    def finding(self) -> PairFinding:
        """In words."""
        told = (
            f"α {self.alpha.middle:.2f} ({self.alpha.low:.2f} to {self.alpha.high:.2f}), "
            f"C_D / C_T {self.draft_ms / self.plain_ms:.3f}, "
            f"{LENGTH + 1} rows take {self.verify_ms / self.plain_ms:.2f}x one"
        )
        if not self.best.k:
            return PairFinding("speed", told, True, "no draft pays here; leave it out")
        return PairFinding(
            "speed", told, True, f"run k={self.best.k}: {self.best.speedup:.2f}x plain"
        )


def measure_pair(
    llm: LLM, drafter: str, prompts: Sequence[Sequence[int]], seconds: float = 10.0
) -> PairSpeed:
    """Run prompts with and without drafts, by turns, until the time is up; once at least."""
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    drafted, plain, until = list[Run](), list[Run](), time.perf_counter() + seconds
    for prompt in prompts:
        drafted.append(run_batch(llm, [prompt], params, Speculation(drafter=drafter, k=LENGTH)))
        plain.append(run_batch(llm, [prompt], params, Speculation(k=0)))
        if time.perf_counter() > until:
            break
    return judge_pair(drafted, plain)


def judge_pair(drafted: Sequence[Run], plain: Sequence[Run]) -> PairSpeed:
    """Acceptance, costs and the best length, from runs of one request each."""
    steps = [step for run in drafted for step in run.steps[1:]]
    asked = [one for step in steps for one in step.drafts if one.budget]
    counts = Counts.of((one.proposed, one.accepted) for one in asked)
    full = [s.pass_ms for s in steps if s.verify_rows == LENGTH + 1]
    plain_ms = median(step.pass_ms for run in plain for step in run.steps)
    verify_ms = max(plain_ms, median(full)) if full else plain_ms
    lengths = [(sum(s.draft_ms.values()), s.drafts[0].budget) for s in steps if s.draft_ms]
    draft_ms = median(ms / budget for ms, budget in lengths)
    curve = CostCurve((1.0, LENGTH + 1.0), (plain_ms, verify_ms))
    costs = Costs(target=curve, draft=DraftCosts(passes=CostCurve((1.0,), (draft_ms,))))
    alpha = constant_alpha(counts)
    return PairSpeed(
        alpha=alpha.interval(),
        draft_ms=draft_ms,
        plain_ms=plain_ms,
        verify_ms=verify_ms,
        best=best_length((alpha.mean,), 1, costs),
    )
