"""Section B of what users reported of other engines: the right law when tokens are sampled.

Laws are proved by enumeration, or read off as the log-probabilities of what was sampled and
compared with what the setting's definition gives at that prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from paceline.certify import Case, cases, violation
from paceline.certify.toys import Kind, ToyDrafter, chain, mimic, toy
from paceline.chooser import Keyed
from paceline.drafters import DraftContext, PerContext, register
from paceline.engine import LLM, Engine
from paceline.errors import ConfigError, RequestError, UnknownNameError
from paceline.kernels.laws import native_laws
from paceline.kernels.library import available
from paceline.sampling import to_laws
from paceline.sampling.pipeline import reference_laws
from paceline.tree import Draft, PointMass, Sampled
from paceline.types import Output, SamplingParams
from paceline.verify import rules
from paceline.verify.laws import as_law
from tests.engines import run
from tests.habits import DRAFTERS, HABIT, MARKS, PROMPTS, V, alone, ask, habits
from tests.mutants.test_drafter_mutants import ArgmaxAsSampled

LAWS = [name for name in rules if name not in ("greedy", "coupled")]
SEEDED: dict[str, Any] = {"temperature": 1.0, "seed": 6, "ignore_eos": True}
every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)
every_law = pytest.mark.parametrize("rule", LAWS)


@every_law
def test_tv_distance_per_verifier(rule: str) -> None:
    """EAGLE 329: users could not tell what was lossless. Here the distance is zero, proved."""
    for case in islice(cases(rules[rule], models=1), 6):
        assert violation(case) is None


@pytest.mark.parametrize("rule", ["multi", "traversal"])
def test_tv_distance_tree(rule: str) -> None:
    """EAGLE 50: benchmarks fell when sampling from trees."""
    trees = [case for case in cases(rules[rule], models=1) if len(case.drafter.shape) > 1]
    for case in trees[:5]:
        assert violation(case) is None


@every_law
def test_greedy_draft_onehot_q(rule: str) -> None:
    """transformers 32867: an argmax draft was judged by its softmax instead of a one-hot law."""
    target = toy(5, 3)
    q = mimic(target, toy(6, 3), 7)
    honest = ToyDrafter(q, chain(Kind.BEST, Kind.BEST))
    assert violation(Case(rules[rule], target, honest, 3)) is None
    assert violation(Case(rules[rule], target, ArgmaxAsSampled(q, chain(Kind.DRAWN)), 3))


SHAPES = (
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.6, top_p=0.8),
    SamplingParams(temperature=1.3, top_k=4),
    SamplingParams(temperature=0.9, min_p=0.05),
)


def test_backend_sampling_parity() -> None:
    """sglang 31214: one backend took the argmax at any temperature. All give the same bits."""
    logits = torch.randn(len(SHAPES), 300, generator=torch.Generator().manual_seed(1))
    laws = [as_law(law) for law in reference_laws(logits, SHAPES)]
    assert all(max(law) < 0.9 for law in laws)
    if available():
        native = native_laws(logits, SHAPES)
        assert native is not None
        assert all(list(a) == list(b) for a, b in zip(laws, native, strict=True))


def test_one_rng_decision(mini: LLM) -> None:
    """vLLM 17498: ranks drew apart. There are no ranks, and a draw hangs on its key alone."""
    with pytest.raises(UnknownNameError, match="'tensor_parallel_size'"):
        LLM("mini", tensor_parallel_size=2)  # type: ignore[call-arg]
    law = toy(5, 3)(())
    for seed in range(20):
        draft = Draft.chain([Sampled(1, 0)], [np.array([0.2, 0.5, 0.3])])
        rows = [np.array(law, dtype=float), np.array([0.3, 0.3, 0.4])]
        one = [rules["token"].verify_one(draft, rows, Keyed(seed, 0, 4)) for _ in "abc"]
        assert len(set(one)) == 1


@register("test_padded")
@dataclass(frozen=True)
class Padded(PerContext):
    """Fills its draft up with an id that is none."""

    filler: int = -1
    k: int = 3

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        return Draft.chain(map(PointMass, [0, *[self.filler] * (budget - 1)]))


@pytest.mark.parametrize("filler", [-1, V])
def test_placeholder_draft(filler: int) -> None:
    """vLLM 46533: a draft padded with -1 read another row of the tables, and could be emitted."""
    padded = habits(f"test_padded:{filler}")
    with pytest.raises(ConfigError, match=r"proposed an id that is not in 0 .. 7; mend its"):
        run(padded, ask("r", drafter=f"test_padded:{filler}", temperature=0))
    padded.pool.check_idle()
    with pytest.raises(RequestError, match=r"predicted output id is not in 0 .. 7"):
        padded.add(ask("r", drafter="prediction", prediction=(1, filler)))


@pytest.mark.parametrize("rule", list(rules))
def test_t0_onehot_before_ratio(rule: str) -> None:
    """jaymody 9: at temperature 0 a draft was accepted by p / q though it was not the argmax."""
    logits = torch.tensor([[0.3, 0.7], [0.9, 0.1]]).log()
    laws = to_laws(logits, [SamplingParams(temperature=0)] * 2)
    draft = Draft.chain([Sampled(0, 0)], [np.array([0.2, 0.8])])
    for seed in range(30):
        verdict = rules[rule].verify_one(draft, laws, Keyed(seed, 0, 3))
        assert verdict.tokens(draft) == (1,)


def check_laws(outputs: Sequence[Output], adjust: Any, temperature: float = 1.0) -> None:
    """Each token's processed log-probability is that of adjust(logits, output before it)."""
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        assert output.logprobs is not None
        for at, entry in enumerate(output.logprobs):
            before = list(output.token_ids[:at])
            tokens = HABIT.tokenizer.encode(prompt) + before
            logits = adjust(HABIT.logits(tokens).double(), before, tokens) / temperature
            wanted = torch.log_softmax(logits, -1)[entry.token]
            assert entry.logprob == pytest.approx(float(wanted), abs=1e-5)


PLAIN: dict[str, tuple[dict[str, Any], list[list[int]]]] = {}
"""What plain decoding writes under settings, which is the same for all drafters."""


def told(habit: Engine, drafter: str, **settings: Any) -> list[Output]:
    """Outputs that tell the laws they were sampled from; their text must be plain decoding's."""
    settings = {**SEEDED, **settings}
    key = repr(sorted(settings.items()))
    if key not in PLAIN:  # with the settings, lest another of them get the address of one of these
        PLAIN[key] = settings, [alone(word, **settings) for word in PROMPTS]
    wanted = PLAIN[key][1]
    settings = {**settings, "logprobs": 0, "processed_logprobs": True, "drafter": drafter}
    outputs = run(habit, *(ask(word, word, **settings) for word in PROMPTS))
    assert [list(o.token_ids) for o in outputs] == wanted
    assert sum(o.counts.accepted for o in outputs) > 0
    return outputs


def counts(tokens: Sequence[int]) -> Tensor:
    seen = Counter(tokens)
    return torch.tensor([seen[i] for i in range(V)])


@every_drafter
def test_minp_logitbias_all_positions(habit: Engine, drafter: str) -> None:
    """vLLM 42744: min_p and logit_bias reached the bonus token alone."""
    bias = {1: 1.5, 3: -2.0, 6: 0.75}

    def adjust(logits: Tensor, before: Sequence[int], tokens: Sequence[int]) -> Tensor:
        logits = logits + torch.tensor([bias.get(i, 0.0) for i in range(V)])
        law = torch.softmax(logits, -1)
        return logits.masked_fill(law < 0.15 * law.max(), -torch.inf)

    check_laws(told(habit, drafter, min_p=0.15, logit_bias=bias), adjust)


@every_drafter
def test_penalties_per_position(habit: Engine, drafter: str) -> None:
    """vLLM 18902: frequency_penalty of -2 and 2 gave one text; bad_words and allowed ids, too."""
    texts = set()
    for settings in (
        {"frequency_penalty": -2.0},
        {"frequency_penalty": 2.0},
        {"presence_penalty": 1.5},
        {"repetition_penalty": 1.7},
        {"bad_words": ("c", "dg", "bfb")},
        {"allowed_token_ids": (0, 2, 3, 4)},
    ):
        outputs = told(habit, drafter, **settings)
        texts.add(tuple(o.token_ids for o in outputs))
        written = "".join(o.text + "|" for o in outputs)
        assert not any(word in written for word in settings.get("bad_words", ()))
        allowed = settings.get("allowed_token_ids", range(V))
        assert {t for o in outputs for t in o.token_ids} <= set(allowed)
    assert len(texts) == 6


@every_drafter
def test_penalty_exact_counts(habit: Engine, drafter: str) -> None:
    """sglang 22049: counts took in the last accepted token alone, not the draft's prefix."""

    def adjust(logits: Tensor, before: Sequence[int], tokens: Sequence[int]) -> Tensor:
        seen = counts(tokens) > 0
        logits = torch.where(seen, torch.where(logits > 0, logits / 1.3, logits * 1.3), logits)
        return logits - 0.4 * counts(before) - 0.25 * (counts(before) > 0)

    settings = {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.25}
    check_laws(told(habit, drafter, **settings), adjust)


@every_drafter
@pytest.mark.parametrize("budget", [0, 1, 3])
def test_budget_mid_block(habit: Engine, drafter: str, budget: int) -> None:
    """vLLM 39573: a thought ran over its budget inside a block."""
    opening, closing = MARKS.values()
    bias = {opening: 1.0, closing: -6.0}
    thoughts = 0
    for output in told(habit, drafter, thinking_budget=budget, logit_bias=bias):
        left: int | None = None
        for token in output.token_ids:
            if left == 0:
                assert token == closing
                thoughts += 1
            if token == closing:
                left = None
            elif left is not None:
                left -= 1
            elif token == opening:
                left = budget
    assert thoughts > 3


@every_drafter
def test_processor_per_position(habit: Engine, drafter: str) -> None:
    """transformers 48390: processors saw drafts with the prefix of another position, or crashed."""
    seen = set()

    def watching(output: list[int], row: Tensor) -> Tensor:
        # Grammars and penalties aside, a row is the model's own at just this prefix.
        assert torch.equal(row, HABIT.logits([0, 1, 2, *output]))
        seen.add(tuple(output))
        return row - 0.5 * len(output) * (torch.arange(V) == output[-1] if output else 0)

    settings = {**SEEDED, "logits_processors": (watching,)}
    (output,) = run(habit, ask("r", drafter=drafter, **settings))
    assert output.error is None
    wanted = alone("abc", **settings)
    assert list(output.token_ids) == wanted
    assert {tuple(wanted[:at]) for at in range(len(wanted))} <= seen
