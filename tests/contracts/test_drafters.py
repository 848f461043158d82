"""What every registered drafter must hold: exact text, budget, batching, preemption, abort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from paceline.drafters import DraftContext, drafters, parse_drafter
from paceline.engine import LLM
from paceline.runtime import next_logits
from paceline.sampling import to_probs
from paceline.tree import Draft, Sampled
from paceline.types import Output, SamplingParams, Speculation
from paceline.verify.laws import as_law
from tests.conftest import PROMPTS

ARGUMENTS = {
    "model": ":mini-draft",
    "merged": "+ngram+model:mini-draft",
    "cascade": "+ngram+model:mini-draft",
}
MORE = ("eagle:tree=false", "model:mini-draft:vocabulary=intersect")
"""Modes of a drafter that are another drafter in all but its name."""
NAMES = (
    *(name + ARGUMENTS.get(name, "") for name in drafters if not name.startswith("test_")),
    *MORE,
)
WITHOUT_MEMORY = tuple("suffix:history_tokens=0" if n == "suffix" else n for n in NAMES)
SAMPLING = {"model", "layerskip", "eagle:tree=false", "merged+ngram+model", "cascade+ngram+model"}
"""Drafters that draw their tokens under the rules that sample."""

GREEDY = SamplingParams(temperature=0, max_tokens=24)
SEEDED = SamplingParams(temperature=0.9, top_p=0.95, seed=11, max_tokens=24)


@pytest.fixture(scope="session")
def every() -> LLM:
    return LLM("mini", draft=tuple(dict.fromkeys((*NAMES, *WITHOUT_MEMORY))))


def ids(outputs: Sequence[Output]) -> list[tuple[int, ...]]:
    return [output.token_ids for output in outputs]


def listen(
    llm: LLM,
    name: str,
    see: Callable[[DraftContext, Draft], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Call `see` with every draft of a drafter and its context, in the pass that proposes it."""
    live = llm.engine._drafters[name].live

    def propose(contexts: Sequence[DraftContext], budgets: Sequence[int]) -> list[Draft]:
        drafts = live.propose(contexts, budgets)
        for context, draft in zip(contexts, drafts, strict=True):
            see(context, draft)
        return drafts

    listened = SimpleNamespace(propose=propose, observe=live.observe, release=live.release)
    drafters = {**llm.engine._step.drafters, name: listened}
    monkeypatch.setattr(llm.engine, "_step", replace(llm.engine._step, drafters=drafters))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "coupled"])
def test_the_text_is_that_of_plain_decoding(every: LLM, name: str, params: SamplingParams) -> None:
    plain = every.generate(PROMPTS, params, speculation=Speculation(k=0))
    for k in (1, 3, 7):
        every.engine.pool.forget_prefixes()
        drafted = every.generate(PROMPTS, params, speculation=Speculation(drafter=name, k=k))
        assert ids(drafted) == ids(plain)
        assert [o.text for o in drafted] == [o.text for o in plain]
        assert [o.finish_reason for o in drafted] == [o.finish_reason for o in plain]
        assert all(o.counts.proposed <= k * o.counts.passes for o in drafted)
        assert all(len(o.counts.reached) <= k for o in drafted)
    every.engine.pool.check_idle()


def test_requests_of_one_batch_may_draft_each_in_their_own_way(every: LLM) -> None:
    """Every drafter, k, rule and setting in one batch; each text as if it ran alone and plain."""
    cases = [
        (prompt, params, Speculation(drafter=name, k=k))
        for (prompt, params), name, k in zip(
            [(p, s) for s in (GREEDY, SEEDED) for p in PROMPTS],
            [*NAMES, *NAMES, *NAMES],
            [1, 2, 3, 4, 5, 6, 1, 2, 3, 4],
            strict=False,
        )
    ]
    streams = [every.stream(p, s, speculation=speculation) for p, s, speculation in cases]
    together = [stream.finish() for stream in streams]
    alone = [every.generate(p, s, speculation=Speculation(k=0))[0] for p, s, _ in cases]
    assert ids(together) == ids(alone)
    every.engine.pool.check_idle()


@pytest.mark.parametrize("name", WITHOUT_MEMORY)
def test_a_sampled_rule_gives_the_same_text_alone_and_among_others(every: LLM, name: str) -> None:
    """For drafters that do not remember other requests: under these rules the text depends on the
    draft, and what is remembered changes the draft.
    """
    rule = "multi" if parse_drafter(name).needs.trees else "block"
    speculation = Speculation(drafter=name, rule=rule)
    alone = [every.generate(p, SEEDED, speculation=speculation)[0] for p in PROMPTS]
    together = every.generate(PROMPTS, SEEDED, speculation=speculation)
    assert ids(together) == ids(alone)


@pytest.mark.parametrize("name", NAMES)
def test_preemption_changes_no_text(build: Callable[..., LLM], every: LLM, name: str) -> None:
    """Twenty-four blocks of four tokens hold one context, but not five: requests are preempted."""
    tight = build(name, blocks=24, max_model_len=96)
    preempted = 0

    def listen(stats: object) -> None:
        nonlocal preempted
        preempted += stats.preempted  # type: ignore[attr-defined]

    tight.engine.listeners.append(listen)
    for params in (GREEDY, SEEDED):
        outputs = tight.generate(PROMPTS, params)
        assert ids(outputs) == ids(every.generate(PROMPTS, params, speculation=Speculation(k=0)))
    assert preempted > 0
    tight.engine.pool.check_idle()


@pytest.mark.parametrize("name", NAMES)
def test_abort_frees_the_blocks_and_disturbs_no_one(every: LLM, name: str) -> None:
    speculation = Speculation(drafter=name)
    wanted = every.generate(PROMPTS[0], SEEDED, speculation=Speculation(k=0))[0]
    kept = every.stream(PROMPTS[0], SEEDED, speculation=speculation)
    left = every.stream(PROMPTS[1], SEEDED, speculation=speculation)
    for _ in zip(range(3), left, strict=False):
        pass
    left.close()
    assert left.output is not None
    assert left.output.finish_reason == "abort"
    assert kept.finish().token_ids == wanted.token_ids
    every.engine.pool.check_idle()


@pytest.mark.parametrize("name", WITHOUT_MEMORY)
def test_what_is_tried_at_a_node_follows_from_its_ancestors(
    every: LLM, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The discard rule: over many seeds, after the same trials at all ancestors, the same trials
    are made; only the value of a sampled one differs. (One sampled trial a node: none could depend
    on another.)
    """
    rule = "multi" if parse_drafter(name).needs.trees else "token"
    trials: dict[tuple[object, ...], set[tuple[str, ...]]] = {}

    def see(context: DraftContext, draft: Draft) -> None:
        for row, tried in enumerate(draft.trials):
            made = tuple("sampled" if isinstance(t, Sampled) else str(t.token) for t in tried)
            path = draft.tree.path_tokens(row)
            above = [draft.trials[r] for r in (0, *draft.tree.path(row))[:-1]]
            tokens = [tuple(trial.token for trial in tried) for tried in above]
            path = (*context.tokens, *path, *tokens)
            trials.setdefault(path, set()).add(made)

    listen(every, name, see, monkeypatch)
    for seed in range(12):
        params = SamplingParams(temperature=1.0, top_k=2, seed=seed, max_tokens=5)
        every.generate(PROMPTS, params, speculation=Speculation(drafter=name, rule=rule, k=3))
    assert all(len(made) == 1 for made in trials.values())


def written_out(law: object) -> Tensor:
    """law[V], whichever kind it is."""
    return torch.tensor(list(as_law(law)), dtype=torch.float64)


def sampled(draft: Draft) -> list[tuple[int, int, Tensor]]:
    """Row, token and law[V] of each sampled trial."""
    return [
        (row, trial.token, written_out(draft.draft_probs[trial.law]))
        for row, tried in enumerate(draft.trials)
        for trial in tried
        if isinstance(trial, Sampled)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_sampled_trial_comes_from_a_law_that_has_its_token(
    every: LLM, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drafter without sampled trials proposes point masses alone."""
    drafts: list[Draft] = []
    listen(every, name, lambda _, draft: drafts.append(draft), monkeypatch)
    rule = "multi" if parse_drafter(name).needs.trees else "block"
    every.generate(PROMPTS, SEEDED, speculation=Speculation(drafter=name, rule=rule, k=3))
    found = [trial for draft in drafts for trial in sampled(draft)]
    assert bool(found) == (name in SAMPLING or name.partition(":")[0] in SAMPLING)
    vocab_size = every.engine.model.spec.vocab_size
    for _, token, law in found:
        assert (law.shape, law.dtype) == ((vocab_size,), torch.float64)
        assert float(law.min()) >= 0
        assert abs(float(law.sum()) - 1) < 1e-9
        assert law[token] > 0


def test_a_draft_model_samples_from_its_own_law_on_the_path(
    every: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit what it says in a pass of its own, under the request's settings."""
    name, checked = "model:mini-draft", 0
    model = every.engine._drafters[name].live._runner.model  # type: ignore[attr-defined]

    def see(context: DraftContext, draft: Draft) -> None:
        nonlocal checked
        for row, _, law in sampled(draft):
            path = [*context.tokens, *draft.tree.path_tokens(row)]
            wanted = to_probs(next_logits(model, path)[None], [context.params])[0]
            assert torch.equal(law, wanted)
            checked += 1

    listen(every, name, see, monkeypatch)
    params = replace(SEEDED, max_tokens=5)
    every.generate(PROMPTS[2:], params, speculation=Speculation(drafter=name, rule="block", k=3))
    assert checked >= 9
