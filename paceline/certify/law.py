"""`certify --law`: what the engine samples, against the target's law by teacher forcing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from paceline.certify.forced import PARAMS, TOKENS, Distort, JointLaw, joint_law
from paceline.certify.gtest import GTest, all_hold, detectable_tv, g_test, gather
from paceline.certify.texts import TextLaw
from paceline.chooser.race import Floats
from paceline.engine import LLM
from paceline.types import Output, Speculation

ALPHA = 1e-3
"""The chance that an honest engine fails: all tests together."""
PROMPT = (
    "# Tosses of a fair coin, written down one after the other as they fell, heads or not:\n"
    "tosses = [True, False, False, True, True, False, True, False, False, False, True, True, False,"
)
"""What comes next is open, and what stands there is likely to come again. Of its first line as much
is left out as makes the rest a token more than whole cache blocks."""
WARM_UP = 1 << 32
"""The seed of the samples that settle the pace and are not tested."""

LEAST = 1000
"""Fewer samples tell nothing; a slow model takes as long as these take."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many samples to take: so many, or what the time allows if that is fewer."""

    samples: int
    seconds: float

    def at(self, pace: float) -> int:
        """The samples it comes to at so many a second."""
        return int(min(self.samples, max(LEAST, pace * self.seconds)))


FULL = Effort(samples=80_000, seconds=240)
QUICK = Effort(samples=8_000, seconds=12)


@dataclass(frozen=True, kw_only=True)
class LawReport:
    """The outcome of all tests on one prompt, drafter and rule."""

    prompt: str
    drafter: str
    rule: str
    samples: int
    sequences: int
    """Outputs the target can give."""
    impossible: int
    """Samples that it cannot give."""
    tests: tuple[GTest, ...]
    false_alarm_rate: float
    detectable_tv: float
    """Total variation of one token's law, alike in its contexts, found with 90 % power."""
    detectable_joint_tv: float
    """Total variation of the joint law, whatever it is, found with 90 % power."""
    proposed: int
    accepted: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every output was possible and no test fails at its share of the rate."""
        return not self.impossible and all_hold(self.tests, self.false_alarm_rate)


def check_law(
    llm: LLM,
    prompt: str,
    *,
    speculation: Speculation | None = None,
    effort: Effort = FULL,
    distort: Distort | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> LawReport:
    """Sample under one key after another; test what comes against the exact law.

    The rule is by default the one that a request without a seed gets. How many samples are taken
    is settled before the first of them is.
    """
    ids = in_whole_blocks(llm.encode(prompt), llm.config.cache.block_tokens)
    (first,) = llm.generate([ids], PARAMS, speculation=speculation)
    speculation = replace(speculation or Speculation(), rule=first.rule)
    total = affordable(llm, ids, speculation, effort)
    started = time.perf_counter()
    outputs: list[Output] = []
    while len(outputs) < total:
        count = min(total - len(outputs), llm.config.scheduler.max_num_requests)
        outputs += sample(llm, ids, len(outputs), count, speculation)
        progress(len(outputs), total)
    law = joint_law(llm.model, ids, distort)
    counts = law.count(output.token_ids for output in outputs)
    tests = law_tests(law, counts)
    joint, *single = (detectable_tv(total, test.cells, ALPHA / len(tests)) for test in tests)
    return LawReport(
        prompt=llm.tokenizer.decode(ids),
        drafter=first.drafter,
        rule=first.rule,
        samples=total,
        sequences=len(law.probs),
        impossible=total - int(counts.sum()),
        tests=tests,
        false_alarm_rate=ALPHA,
        detectable_tv=max(single),
        detectable_joint_tv=joint,
        proposed=sum(output.counts.proposed for output in outputs),
        accepted=sum(output.counts.accepted for output in outputs),
        seconds=time.perf_counter() - started,
    )


def in_whole_blocks(ids: list[int], block_tokens: int) -> list[int]:
    """The ids without some at the beginning, so that the prefix cache holds all but the last.

    A sample then costs the rows of its own tokens. The first id may be one that starts every text.
    """
    spare = (len(ids) - 1) % block_tokens if len(ids) > block_tokens else 0
    return [*ids[:1], *ids[1 + spare :]]


def affordable(llm: LLM, prompt: list[int], speculation: Speculation, effort: Effort) -> int:
    """How many samples the effort comes to, at the pace of some that are not tested."""
    if effort.seconds == math.inf:
        return effort.samples
    batch = llm.config.scheduler.max_num_requests
    sample(llm, prompt, WARM_UP, 1, speculation)
    started = time.perf_counter()
    sample(llm, prompt, WARM_UP + 1, batch, speculation)
    return effort.at(batch / (time.perf_counter() - started))


def sample(
    llm: LLM, prompt: list[int], seed: int, count: int, speculation: Speculation
) -> list[Output]:
    """The first `count` choices under a seed, independent draws all; in one batch if they fit."""
    params = replace(PARAMS, seed=seed, n=count)
    return llm.generate([prompt], params, speculation=speculation)


def law_tests(law: JointLaw | TextLaw, counts: Floats) -> tuple[GTest, ...]:
    """The joint law, then the places of tokens 2, 3 and 4; counts[S]."""
    tests = [g_test(f"tokens 1 to {TOKENS} jointly", counts, law.probs)]
    for token in range(1, TOKENS):
        ranks = law.ranks[:, token]
        by_rank = gather(ranks, counts), gather(ranks, law.probs)
        tests.append(g_test(f"token {token + 1} by its place", *by_rank))
    return tuple(tests)
