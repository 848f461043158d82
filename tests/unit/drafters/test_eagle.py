"""EAGLE: rows from true features whatever came before, trees by confidence, sampled chains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from paceline.drafters.base import DraftContext
from paceline.drafters.confidence import Calibration, Recalibration
from paceline.drafters.eagle import UNREAD_PASSES, Eagle
from paceline.drafters.eagle_growth import Node, Tree
from paceline.engine import LLM
from paceline.errors import ConfigError, ModelFileError
from paceline.models.fields import Fields
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS
from tests.contracts.test_drafters import listen

GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
COUPLED = SamplingParams(temperature=0.8, seed=5, max_tokens=24, ignore_eos=True)
MODES = ("eagle", "eagle:tree=false")


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("mini", draft=(*MODES, "ngram", "suffix+eagle"))


def ids(outputs: Any) -> list[tuple[int, ...]]:
    return [output.token_ids for output in outputs]


def live_of(llm: LLM, name: str) -> Any:
    return llm.engine._drafters[name].live


@pytest.mark.parametrize("params", [GREEDY, COUPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", [*MODES, "suffix+eagle"])
def test_the_text_is_that_of_plain_decoding_alone_and_in_a_batch_of_eight(
    llm: LLM, name: str, params: SamplingParams
) -> None:
    prompts = [*PROMPTS, *(prompt + "x" for prompt in PROMPTS[:3])]
    plain = llm.generate(prompts, params, speculation=Speculation(k=0))
    drafted = Speculation(drafter=name, k=6)
    assert ids(llm.generate(prompts, params, speculation=drafted)) == ids(plain)
    alone = [llm.generate(p, params, speculation=drafted)[0] for p in prompts[2:4]]
    assert ids(alone) == ids(plain)[2:4]


def written_rows(llm: LLM, name: str, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The keys and values of the rows of true features, at each draft of a running request."""
    live, found = live_of(llm, name), list[torch.Tensor]()

    def see(context: Any, draft: Any) -> None:
        known = live._cache.requests[context.request_id]
        slots = live._cache.context(context, known)
        assert known.filled == len(context.tokens)
        kv = live._runner._kv
        rows = torch.stack([kv.keys[0, slots], kv.values[0, slots]])
        found.append(torch.cat([rows.new_zeros(2, known.first, *rows.shape[2:]), rows], dim=1))

    listen(llm, name, see, monkeypatch)
    return found


@pytest.mark.parametrize("name", MODES)
def test_rows_come_from_true_features_after_each_verification(
    llm: LLM, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit those of a request whose prompt is the whole text: nothing drafted stays."""
    llm.engine.pool.forget_prefixes()
    seen = written_rows(llm, name, monkeypatch)
    (output,) = llm.generate(PROMPTS[0], GREEDY, speculation=Speculation(drafter=name))
    drafted = seen[-1]
    llm.engine.pool.forget_prefixes()
    tokens = [*llm.encode(PROMPTS[0]), *output.token_ids]
    count = drafted.shape[1]
    params = SamplingParams(temperature=0, max_tokens=3)
    llm.generate([tokens[:count]], params, speculation=Speculation(drafter=name))
    fresh = next(rows for rows in seen[::-1] if rows.shape[1] <= count + 1)
    assert torch.equal(drafted[:, :count], fresh[:, :count])


def test_a_prefix_that_was_run_with_the_drafter_is_known(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request is spared its prefix and yet drafts from the first row on."""
    llm.engine.pool.forget_prefixes()
    seen = written_rows(llm, "eagle", monkeypatch)
    prompt = PROMPTS[0] * 2
    asked = Speculation(drafter="eagle")
    first = llm.generate(prompt, GREEDY, speculation=asked)[0]
    rows = seen[0]
    seen.clear()
    second = llm.generate(prompt, GREEDY, speculation=asked)[0]
    assert first.cached_tokens == 0 < second.cached_tokens
    assert torch.equal(seen[0], rows)
    assert second.counts == first.counts


def test_a_prefix_that_another_drafter_ran_restarts_it_cold(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.engine.pool.forget_prefixes()
    prompt = PROMPTS[0] * 2
    plain = llm.generate(prompt, GREEDY, speculation=Speculation(drafter="ngram"))[0]
    firsts: list[int] = []

    def see(context: Any, draft: Any) -> None:
        firsts.append(live_of(llm, "eagle")._cache.requests[context.request_id].first)

    listen(llm, "eagle", see, monkeypatch)
    output = llm.generate(prompt, GREEDY, speculation=Speculation(drafter="eagle"))[0]
    assert output.token_ids == plain.token_ids
    assert set(firsts) == {output.cached_tokens + 1}
    assert output.cached_tokens > 0


def test_what_passes_without_drafts_missed_is_filled(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that drafts nothing keeps few features waiting, and none once it is gone."""
    monkeypatch.setattr("paceline.drafters.eagle.IDLE_ROWS", 64)
    live = live_of(llm, "eagle")
    stream = llm.stream(
        PROMPTS[1],
        SamplingParams(temperature=0, max_tokens=150, ignore_eos=True),
        speculation=Speculation(drafter="eagle", k=0),
    )
    waiting = []
    for _ in stream:
        waiting += [known.ready - known.filled for known in live._cache.requests.values()]
    assert max(waiting) <= 64
    assert len(waiting) > 100
    assert not live._cache.requests


def test_states_of_plain_passes_are_looked_at_together(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before a draft, and of a request that is released."""
    live, reads = live_of(llm, "eagle"), []
    read = live._read
    monkeypatch.setattr(live, "_read", lambda: reads.append(len(live._unread)) or read())
    params = SamplingParams(temperature=0, max_tokens=2 * UNREAD_PASSES, ignore_eos=True)
    llm.generate(PROMPTS[1], params, speculation=Speculation(drafter="eagle", k=0))
    assert max(reads) == UNREAD_PASSES
    assert sum(reads) >= 2 * UNREAD_PASSES
    assert not live._unread
    reads.clear()
    llm.generate(PROMPTS[1], params, speculation=Speculation(drafter="eagle", k=3))
    assert max(reads) == 1


def test_a_tree_keeps_to_its_width_depth_and_budget(
    llm: LLM, build: Callable[..., LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "eagle:width=2:depth=3:min_prob=0.01"
    narrow, sizes = build(name), set()

    def see(context: Any, draft: Any) -> None:
        assert max(draft.tree.depths) <= 3
        assert all(len(children) <= 2 for children in draft.tree.children)
        sizes.add(len(draft))

    listen(narrow, name, see, monkeypatch)
    narrow.generate(PROMPTS, GREEDY, speculation=Speculation(k=7))
    assert max(sizes) == 7


def test_a_surer_drafter_drafts_more(llm: LLM, build: Callable[..., LLM]) -> None:
    proposed = []
    for least in (0.01, 0.95):
        outputs = build(f"eagle:min_prob={least}").generate(PROMPTS[:2], GREEDY)
        proposed.append(sum(o.counts.proposed / o.counts.passes for o in outputs))
    assert proposed[0] > proposed[1]


@pytest.mark.parametrize("option", ["k=0", "width=0", "depth=0", "min_prob=1.5"])
def test_ranges_are_checked(option: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(ConfigError, match="Drafter 'eagle' wants"):
        Eagle(**{name: float(value) if "." in value else int(value)})  # type: ignore[arg-type]


def test_precisions_are_checked() -> None:
    with pytest.raises(ConfigError, match="is int4 or int8, not 'int5'"):
        Eagle(quantize="int5")


def test_confidences_are_calibrated_between_what_was_measured() -> None:
    calibration = Calibration((((0.2, 0.6), (0.1, 0.5)), ((0.0, 1.0), (0.8, 0.8))))
    assert calibration(1, [0.0, 0.4, 0.9]) == pytest.approx([0.1, 0.3, 0.5])
    assert calibration(2, [0.3]) == calibration(5, [0.9]) == [0.8]


def test_a_request_that_is_surer_than_most_is_corrected() -> None:
    """Log odds move by the surprise, siblings share what the likeliest leaves, none exceeds 1."""
    own = Recalibration()
    assert own([0.5, 0.25]) == pytest.approx([0.5, 0.25])
    assert own([]) == []
    own.learn(0.5, True)
    (first, second), shift = own([0.5, 0.25]), 0.3 * 0.5
    assert first == pytest.approx(1 / (1 + math.exp(-shift)))
    assert second == pytest.approx((1 - first) / 2)
    for _ in range(1000):
        own.learn(own([0.5])[0], False)
    assert own([0.5])[0] == pytest.approx(1 / (1 + math.exp(3)), rel=0.05)
    assert sum(own([1.0, 1.0])) == pytest.approx(1.0)


def test_what_became_of_a_tree_is_learnt_along_its_path() -> None:
    """The likeliest child was wrong, then right; a token that was not drafted ends the path."""
    own, context = Recalibration(), cast(DraftContext, None)
    nodes = [Node(7, 0, 1, 0.6), Node(8, 0, 1, 0.3), Node(9, 2, 2, 0.15), Node(5, 3, 3, 0.03)]
    Tree(context, 4, 2, 4, 0.0, Calibration(), own, nodes).learn([8, 9, 6, 7])
    assert own.shift == pytest.approx(0.3 * (-0.6 + (1 - 0.5) - 0.2))


def test_a_request_learns_while_it_runs_and_is_forgotten(llm: LLM) -> None:
    live, seen = live_of(llm, "eagle"), list[float]()
    asked = Speculation(drafter="eagle", k=6)
    for _ in llm.stream(PROMPTS[0], GREEDY, speculation=asked):
        seen += [own.shift for own in live._own.values()]
    assert len(set(seen)) > 3
    assert not live._own
    assert not live._grown


@pytest.mark.parametrize("table", [[[0.1]], [[0.1, 0.2], [0.3]], [[0.5, 0.1], [0.1, 0.2]], "x"])
def test_a_damaged_calibration_is_refused(table: object, tmp_path: Any) -> None:
    with pytest.raises(ModelFileError, match="calibration"):
        Calibration.read(Fields({"calibration": table}, tmp_path), "calibration")


def test_the_layer_runs_in_torch_as_well() -> None:
    torch_llm = LLM("mini", draft="eagle", kernels="torch")
    params = SamplingParams(temperature=0, max_tokens=10)
    plain = torch_llm.generate(PROMPTS[:2], params, speculation=Speculation(k=0))
    outputs = torch_llm.generate(PROMPTS[:2], params)
    assert ids(outputs) == ids(plain)
    assert sum(output.counts.accepted for output in outputs) > 0
