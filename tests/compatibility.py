"""A walk over what can be combined, on the habitual oracle; docs/compatibility.md is what it finds.

    python -m tests.compatibility > docs/compatibility.md

Each combination is run with speculation and without, greedily and with a seed. It is *exact* where
text, log-probabilities and end are the same, and *refused* where the engine says why. Anything else
(another text, a setting without effect, any other exception) ends the walk with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from paceline.engine import Engine
from paceline.errors import ConfigError, RequestError
from paceline.structured import StructuredOutput
from paceline.types import Output
from paceline.verify import rules
from tests.engines import run
from tests.habits import DRAFTERS, ask, habits

Settings = dict[str, Any]
PROMPTS = ("deadface", "cab")
TOKENS = 12
KINDS: dict[str, Settings] = {
    "temperature 0": {"temperature": 0.0},
    "seed": {"temperature": 1.3, "seed": 5},
}
STRUCTURED = StructuredOutput(regex="[a-f]{3,6}(aa|b)")


def third(output: list[int], row: Any) -> Any:
    """A custom processor: every third token is another one than the likeliest."""
    if len(output) % 3 == 2:
        row[row.argmax()] -= 9
    return row


SETTINGS: dict[str, Settings] = {
    "top_k": {"top_k": 2},
    "top_p": {"top_p": 0.5},
    "min_p": {"min_p": 0.4},
    "typical_p": {"typical_p": 0.4},
    "presence_penalty": {"presence_penalty": 1.5},
    "frequency_penalty": {"frequency_penalty": 1.2},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "logit_bias": {"logit_bias": {0: 2.0, 4: -3.0}},
    "bad_words": {"bad_words": ("c", "be")},
    "allowed_token_ids": {"allowed_token_ids": (0, 1, 3, 5, 6, 7)},
    "logits_processors": {"logits_processors": (third,)},
    "structured": {"structured": STRUCTURED},
    "thinking_budget": {"thinking_budget": 1},
    "min_tokens": {"min_tokens": 10},
    "ignore_eos": {"ignore_eos": True},
    "stop": {"stop": ("c", "ab", "gf")},
    "stop_token_ids": {"stop_token_ids": (0, 1, 2)},
    "max_tokens": {"max_tokens": 3},
    "logprobs": {"logprobs": 2},
    "processed_logprobs": {"logprobs": 2, "processed_logprobs": True},
    "prompt_logprobs": {"prompt_logprobs": 1},
    "n": {"n": 2},
}
EXACT = "exact"

NOT_SERVED = {
    "rollback_recurrent": "recurrent and linear-attention models are refused when they are loaded",
    "greedy_parity_moe": "mixtures of experts are refused when they are loaded",
    "one_rng_decision": "there is one process, so there are no ranks to agree; an option such as"
    " `tensor_parallel_size` is refused by name",
    "unsupported_combo_error": "the same holds of pipeline parallelism; what one process can be"
    " asked for is told above",
    "backend_sampling_parity": "there is no HIP path; the test holds torch against the native"
    " library",
    "medusa_lossless_mode": "no rule is lossy, so there is no mode to choose; each default rule is"
    " proved",
}
"""Cases of users' reports of which a part cannot apply, and why."""


def told(output: Output) -> tuple[Any, ...]:
    """What speculation may not change."""
    text = output.token_ids, output.text, output.finish_reason, output.error
    return *text, output.logprobs, output.prompt_logprobs


def outputs(engine: Engine, drafter: str, settings: Settings) -> list[tuple[Any, ...]]:
    """What each prompt gives, each of `n` samples."""
    sent = [
        replace(
            ask(f"{prompt}{choice}", prompt, drafter, **{"max_tokens": TOKENS, **settings}),
            choice=choice,
        )
        for prompt in PROMPTS
        for choice in range(settings.get("n", 1))
    ]
    return list(map(told, run(engine, *sent)))


def outcome(engine: Engine, drafter: str, settings: Settings) -> str:
    """`exact`, or the sentence that refuses it."""
    try:
        found = outputs(engine, drafter, settings)
    except (RequestError, ConfigError) as refusal:
        assert not engine.has_work, "a refusal must come before anything runs"
        return str(refusal)
    if "rule" not in settings and found != outputs(engine, "none", settings):
        raise AssertionError(f"{drafter} changed what {settings} give")
    errors = {error for *_, error, _, _ in found if error}
    return f"may end with: {errors.pop()}" if errors else EXACT


def check_effects(engine: Engine) -> None:
    """See that no setting is ignored."""
    for name, setting in SETTINGS.items():
        plain = [outputs(engine, "none", kind) for kind in KINDS.values()]
        with_it = [outputs(engine, "none", {**kind, **setting}) for kind in KINDS.values()]
        assert plain != with_it, f"{name} has no effect"


def by_drafter(engine: Engine) -> Iterator[str]:
    """A table of settings and drafters."""
    yield row("setting", *(f"`{name}`" for name in DRAFTERS))
    yield row(*["---"] * (len(DRAFTERS) + 1))
    for name, setting in SETTINGS.items():
        found = [
            {outcome(engine, drafter, {**kind, **setting}) for kind in KINDS.values()}
            for drafter in DRAFTERS
        ]
        yield row(f"`{name}`", *("; ".join(sorted(each)) for each in found))


def by_rule(engine: Engine) -> Iterator[str]:
    """A table of rules and drafters, greedily and at a temperature."""
    chain, tree = "ngram:k=4", "suffix"
    yield row("rule", *(f"{drafts}, {kind}" for drafts in ("chains", "trees") for kind in KINDS))
    yield row(*["---"] * 5)
    for rule in rules:
        yield row(
            f"`{rule}`",
            *(
                outcome(engine, drafter, {**kind, "rule": rule})
                for drafter in (chain, tree)
                for kind in KINDS.values()
            ),
        )


def pairs(engine: Engine) -> Iterator[str]:
    """The pairs of settings that are refused."""
    for (one, first), (other, second) in combinations(SETTINGS.items(), 2):
        found = outcome(engine, "test_branches", {**KINDS["seed"], **first, **second})
        if found != EXACT:
            yield f"- `{one}` with `{other}`: {found}"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def document() -> str:
    """docs/compatibility.md."""
    engine = habits()
    check_effects(engine)
    count = len(SETTINGS) * (len(SETTINGS) - 1) // 2
    lines = [
        "# What can be combined",
        "",
        "Written by `python -m tests.compatibility`, which runs every combination below with"
        " speculation and without, at temperature 0 and with a seed. *exact*: text,"
        " log-probabilities and end are the same. A sentence: the engine refuses the request with"
        " it, before anything runs; *may end with*: an output that the settings leave no way on for"
        " ends so, with speculation and without. The walk fails on a setting without effect and"
        " on any other error; `tests/docs` holds this page to it.",
        "",
        "## Settings and drafters",
        "",
        *by_drafter(engine),
        "",
        "## Rules and drafts",
        "",
        "Under `token`, `block`, `multi` and `traversal` the law is exact, proved by"
        " `certify --exact`; their text for a seed hangs on the draft, too.",
        "",
        *by_rule(engine),
        "",
        "## Pairs of settings",
        "",
        f"Of the {count} pairs of the settings above, drafted as trees and with a seed, all are"
        " exact but these:",
        "",
        *pairs(engine),
        "",
        "## What users reported of other engines and cannot happen here",
        "",
        "Each has a test of its name in `tests/cases`, which sees that what is not served is"
        " refused.",
        "",
        *(f"- `{case}`: {why}." for case, why in NOT_SERVED.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
