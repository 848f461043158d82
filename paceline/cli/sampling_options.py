"""The options that shape what is sampled, each written once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli.prompts import decode
from paceline.errors import ConfigError
from paceline.structured import StructuredOutput
from paceline.types import SamplingParams

SAMPLING = "Sampling"


def _option(*names: str, help: str, **limits: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=SAMPLING, **limits)


Temperature = Annotated[float, _option("--temperature", "-t", help="0 takes the likeliest token.")]
TopP = Annotated[float, _option("--top-p", help="Keep the likeliest ids up to this mass.")]
TopK = Annotated[int, _option("--top-k", help="Keep this many ids; 0 keeps all.")]
MinP = Annotated[float, _option("--min-p", help="Keep ids this likely relative to the likeliest.")]
TypicalP = Annotated[
    float, _option("--typical-p", help="Keep the ids of the most typical surprise up to this mass.")
]
Presence = Annotated[
    float, _option("--presence-penalty", help="Taken from the logits of ids in the output.")
]
Frequency = Annotated[
    float, _option("--frequency-penalty", help="Taken as often as the id is in the output.")
]
Repetition = Annotated[
    float,
    _option("--repetition-penalty", help="Divides positive logits of ids in prompt or output."),
]
LogitBias = Annotated[
    list[str] | None,
    _option("--logit-bias", help="ID=VALUE, added to the logit of an id; repeatable."),
]
BadWord = Annotated[
    list[str] | None,
    _option("--bad-word", help="Text that may not come about; repeatable."),
]
JsonSchema = Annotated[
    Path | None, _option("--json-schema", help="Write JSON that fits the schema in a file.")
]
Regex = Annotated[str | None, _option("--regex", help="Write text that the expression matches.")]
GrammarFile = Annotated[
    Path | None, _option("--grammar", help="Write text of the Lark grammar in a file.")
]
Seed = Annotated[int | None, _option("--seed", help="Makes the text reproducible, drafted or not.")]
MaxTokens = Annotated[int, _option("--max-tokens", "-n", help="Tokens to write at most.")]
MinTokens = Annotated[int, _option("--min-tokens", help="Tokens before which nothing ends it.")]
Stop = Annotated[
    list[str] | None,
    _option("--stop", help="Text that ends the output, which ends before it; repeatable."),
]
IgnoreEos = Annotated[bool, _option("--ignore-eos", help="Write on past the end of the text.")]
Logprobs = Annotated[
    int | None,
    _option(
        "--logprobs",
        help="Tell log-probabilities, and so many of the likeliest; needs --json.",
    ),
]


SETTINGS = (
    *("temperature", "top_p", "top_k", "min_p", "typical_p", "presence_penalty"),
    *("frequency_penalty", "repetition_penalty", "seed", "max_tokens", "min_tokens"),
    *("ignore_eos", "logprobs"),
)
"""Options that are settings as they stand."""


def sampling(given: Mapping[str, Any]) -> SamplingParams:
    """The request's settings among a command's options.

    Raises:
        ConfigError, RequestError: a value is wrong.
    """
    return SamplingParams(
        logit_bias=dict(map(parse_bias, given.get("logit_bias") or ())),
        bad_words=tuple(given.get("bad_word") or ()),
        stop=tuple(given.get("stop") or ()),
        structured=structured(given),
        **{name: given[name] for name in SETTINGS if name in given},
    )


def structured(given: Mapping[str, Any]) -> StructuredOutput | None:
    """The one form that the output must have, if any; raises RequestError for two."""
    schema, grammar = given.get("json_schema"), given.get("grammar")
    forms: dict[str, Any] = {
        "json_schema": schema and decode(schema.read_bytes(), str(schema)),
        "grammar": grammar and decode(grammar.read_bytes(), str(grammar)),
        "regex": given.get("regex"),
    }
    named = {name: form for name, form in forms.items() if form is not None}
    return StructuredOutput(**named) if named else None


def parse_bias(text: str) -> tuple[int, float]:
    """ID=VALUE as numbers; raises ConfigError."""
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError as error:
        raise ConfigError(f"--logit-bias wants ID=VALUE, as 198=-5, not '{text}'.") from error
