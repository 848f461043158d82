"""Section A of what users reported of other engines: the same text as plain decoding.

Each test bears its case's name. Where the fault was of one drafter, every drafter is put to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.certify import cases, violation
from paceline.certify.parity import find_forks
from paceline.drafters import DraftContext, PerContext, register
from paceline.engine import LLM, Engine
from paceline.errors import UnsupportedModelError
from paceline.kernels.library import available
from paceline.models import load_model
from paceline.tree import Draft, PointMass
from paceline.types import Output, SamplingParams, Speculation
from paceline.verify import default_rule, rules
from tests.conftest import PROMPTS
from tests.engines import run
from tests.habits import DRAFTERS, HABIT, V, alone, ask, habits
from tests.habits import PROMPTS as WORDS
from tests.model_files import hf_model, write_tokenizer
from tests.tiny_models import SPECS, random_tokens, random_weights

GREEDY = SamplingParams(temperature=0, max_tokens=24)
PLAIN = Speculation(k=0)
every_drafter = pytest.mark.parametrize("drafter", DRAFTERS)


@register("test_gibberish")
@dataclass(frozen=True)
class Gibberish(PerContext):
    """Proposes any letters at all."""

    k: int = 3

    def draft(self, ctx: DraftContext, budget: int) -> Draft:
        rng = random.Random(len(ctx.tokens))
        return Draft.chain(PointMass(rng.randrange(V)) for _ in range(budget))


def ids(outputs: Sequence[Output]) -> list[list[int]]:
    return [list(output.token_ids) for output in outputs]


@every_drafter
def test_greedy_parity(habit: Engine, drafter: str) -> None:
    """vLLM 7627: the text parted from the target's own."""
    settings = {"temperature": 0.0, "ignore_eos": True}
    outputs = run(habit, *(ask(word, word, drafter, **settings) for word in WORDS))
    assert ids(outputs) == [alone(word, **settings) for word in WORDS]
    assert sum(o.counts.accepted for o in outputs) > 0


def test_greedy_parity_ngram(build: Callable[..., LLM]) -> None:
    """vLLM 41758: 20 of 20 prompts forked with n-grams of 2 to 5, a fault of kernels."""
    llm = build("ngram:min_n=2:max_n=5:k=4")
    drafted = llm.generate(PROMPTS, GREEDY)
    llm.engine.pool.forget_prefixes()
    assert ids(drafted) == ids(llm.generate(PROMPTS, GREEDY, speculation=PLAIN))
    assert sum(o.counts.accepted for o in drafted) > 0


def test_draft_precision_irrelevant(mini: LLM, build: Callable[..., LLM]) -> None:
    """vLLM 5313: a quantised draft changed the text."""
    wanted = ids(mini.generate(PROMPTS[:3], GREEDY, speculation=PLAIN))
    kinds = ["dtype=bfloat16", *(["quantize=int8"] if available() else [])]  # it needs the kernels
    drafts = [f"model:mini-draft:{kind}" for kind in kinds]
    llm = build(*drafts)
    for draft in drafts:
        llm.engine.pool.forget_prefixes()
        outputs = llm.generate(PROMPTS[:3], GREEDY, speculation=Speculation(drafter=draft))
        assert ids(outputs) == wanted
        assert sum(o.counts.accepted for o in outputs) > 0


@pytest.mark.parametrize("family", ["qwen3_next", "mamba"])
def test_rollback_recurrent(tmp_path: Path, family: str) -> None:
    """vLLM 39273: rejected tokens stayed in a recurrent state; such models are refused."""
    refused(tmp_path, family)


def test_greedy_parity_moe(tmp_path: Path) -> None:
    """TensorRT-LLM 5791: a mixture of experts lost accuracy; such models are refused."""
    refused(tmp_path, "qwen3_moe")


def refused(folder: Path, family: str) -> None:
    (folder / "config.json").write_text(f'{{"model_type": "{family}"}}')
    with pytest.raises(UnsupportedModelError, match=f"model_type '{family}' is not supported"):
        load_model(folder)


def test_hf_parity(tmp_path: Path) -> None:
    """transformers 30042: `generate` with an assistant was not `generate` without."""
    spec = SPECS["grouped heads, tied"]
    reference = hf_model(spec, random_weights(spec))
    reference.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    prompt = random_tokens(spec, 12) * 2
    with torch.inference_mode():
        sent = torch.tensor([prompt])
        theirs = reference.generate(sent, max_new_tokens=16, do_sample=False, eos_token_id=256)
    llm = LLM(str(tmp_path), draft=("ngram:min_n=1", "suffix"))
    for drafter in ("ngram", "suffix", "none"):
        params = SamplingParams(temperature=0, max_tokens=16)
        (ours,) = llm.generate(prompt, params, speculation=Speculation(drafter=drafter))
        assert list(ours.token_ids) == theirs[0, len(prompt) :].tolist()


@every_drafter
def test_position_ids_after_accept(drafter: str) -> None:
    """transformers 30413: after an accepted block the target was fed wrong positions.

    The oracle sees its positions: each row must stand one behind the last of its own path.
    """
    settings = {"temperature": 0.0, "ignore_eos": True}
    long = "abcdefgh" * 4
    for max_rows in (64, 7):
        (output,) = run(habits(drafter, max_rows=max_rows), ask("r", long, drafter, **settings))
        assert list(output.token_ids) == alone(long, **settings)
        assert output.counts.accepted > 0


def test_divergence_explainer(habit: Engine) -> None:
    """TensorRT-LLM 8285: texts differed, "not a bug" without a proof. A fork tells its margin."""
    (output,) = run(habit, ask("r", temperature=0.0))
    at = 4
    other = (*output.token_ids[:at], (output.token_ids[at] + 1) % V)
    llm: Any = SimpleNamespace(model=HABIT, tokenizer=HABIT.tokenizer)
    prompt = HABIT.tokenizer.encode("abc")
    (fork,) = find_forks(llm, [prompt], [replace(output, token_ids=other)], [output])
    first, second = HABIT.logits([*prompt, *output.token_ids[:at]]).topk(2).values.tolist()
    assert (fork.position, fork.token_on, fork.token_off) == (at, other[at], output.token_ids[at])
    assert (fork.text_on, fork.text_off) == tuple(
        f"'{'abcdefgh'[o[at]]}'" for o in (other, output.token_ids)
    )
    assert fork.margin == first - second > 1e-3
    assert fork.verdict == "bug"
    assert replace(fork, margin=1e-5).verdict == "near-tie in floating point"


def test_sanity_vs_baseline() -> None:
    """TensorRT-LLM 11125: gibberish with three drafted tokens. Whatever is drafted is checked."""
    settings = {"temperature": 0.0, "ignore_eos": True}
    sent = [ask(word, word, "test_gibberish", **settings) for word in WORDS]
    outputs = run(habits("test_gibberish"), *sent)
    assert ids(outputs) == [alone(word, **settings) for word in WORDS]
    proposed = sum(o.counts.proposed for o in outputs)
    assert 0 < sum(o.counts.accepted for o in outputs) < proposed / 2


def test_restart_determinism(build: Callable[..., LLM]) -> None:
    """sglang 39597: the same server gave another text after each start."""
    first, second = (build("ngram", "model:mini-draft").generate(PROMPTS[:2], GREEDY) for _ in "ab")
    assert ids(first) == ids(second)


def test_verify_width_invariance(mini: LLM) -> None:
    """vLLM 54506: rows of a pass of one and of a pass of k + 1 had other bits."""
    params = replace(GREEDY, logprobs=2)
    told = set()
    for k in (0, 1, 4, 8):
        mini.engine.pool.forget_prefixes()
        speculation = Speculation(drafter="model", k=k)
        told.add(
            tuple(o.logprobs for o in mini.generate(PROMPTS[:3], params, speculation=speculation))
        )
    assert len(told) == 1


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_medusa_lossless_mode(temperature: float, seed: int | None, trees: bool) -> None:
    """Medusa 56: the mode in use kept no law. Here each default rule is proved."""
    rule = rules[default_rule(SamplingParams(temperature=temperature, seed=seed), trees)]
    assert rule.trees or not trees
    for case in islice(cases(rule, models=1), 1 if rule.reproducible else 4):
        assert violation(case) is None
