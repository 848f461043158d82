"""The bodies that requests may have: OpenAI's, with the engine's own settings beside them.

A field that is not here is refused by name. Those that change nothing are listed in `Inert`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from paceline.server.messages import Content, Message, NamedTool, Strict, Tool

Token = Annotated[int, Field(ge=0, lt=1 << 31)]
NonEmpty = Annotated[str, Field(json_schema_extra={"minLength": 1})]
"""Described so; that a prompt is empty is said by the engine, in its own words."""
Texts = Annotated[list[str], Field(max_length=16)]
NO_TOOL = "none"
Many = Field(default=None, max_length=1024)


class Inert(Strict):
    """Fields that OpenAI documents and that have no effect here."""

    user: str | None = None
    metadata: Annotated[dict[str, str] | None, Field(max_length=16)] = None
    store: bool | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class SpeculationFields(Strict):
    """How one request is drafted and verified."""

    enabled: bool = True
    drafter: str | None = None
    """The name of a drafter loaded at start."""
    k: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] | None = None
    rule: str | None = None

    @model_validator(mode="after")
    def _nothing_beside_off(self) -> SpeculationFields:
        if not self.enabled and (self.drafter, self.k, self.rule) != (None, None, None):
            raise ValueError("enabled false takes no drafter, k or rule")
        return self


class PredictionFields(Strict):
    """A guess of the output."""

    type: Literal["content"]
    content: Content


class TextFormat(Strict):
    """No form."""

    type: Literal["text"]


class JsonObjectFormat(Strict):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchema(Strict):
    """A schema under a name; it is kept to whatever `strict` says."""

    model_config = ConfigDict(populate_by_name=True)

    name: str
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class JsonSchemaFormat(Strict):
    """JSON that fits a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]


class StructuredFields(Strict):
    """What the whole output must be, in vLLM's names."""

    model_config = ConfigDict(populate_by_name=True)

    json_: Annotated[str | dict[str, Any] | None, Field(alias="json")] = None
    json_object: bool | None = None
    regex: str | None = None
    choice: Annotated[list[str] | None, Field(max_length=1024)] = None
    grammar: str | None = None
    disable_any_whitespace: bool = False


class StreamOptions(Strict):
    """What a stream tells besides the text."""

    include_usage: bool = False
    include_obfuscation: bool | None = None
    """Inert."""


class Sampling(Inert):
    """The settings of SamplingParams, and what both endpoints share besides."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Annotated[int | None, Field(lt=1 << 31)] = None
    min_p: float | None = None
    typical_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Annotated[dict[str, float] | None, Many] = None
    bad_words: Annotated[list[str] | None, Field(max_length=256)] = None
    allowed_token_ids: Annotated[list[Token], Field(min_length=1)] | None = None
    min_tokens: Annotated[int | None, Field(lt=1 << 31)] = None
    thinking_budget: Annotated[int | None, Field(lt=1 << 31)] = None
    stop: str | Texts | None = None
    stop_token_ids: Annotated[list[Token] | None, Many] = None
    ignore_eos: bool | None = None
    processed_logprobs: bool | None = None
    seed: int | None = None
    n: Annotated[int | None, Field(ge=1, le=128)] = None
    max_tokens: Annotated[int | None, Field(ge=1, lt=1 << 31)] = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredFields | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prediction: PredictionFields | None = None
    speculation: SpeculationFields | None = None
    token_events: bool | None = None
    """One event a token, with where it came from; else as the server was started."""

    @field_validator("logit_bias")
    @classmethod
    def _ids(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        if any(not (key.isascii() and key.isdigit() and len(key) < 10) for key in bias or {}):
            raise ValueError("its keys must be token ids, as in {'198': -5}")
        return bias

    @model_validator(mode="after")
    def _fit_together(self) -> Sampling:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream true")
        if self.response_format is not None and self.structured_outputs is not None:
            raise ValueError("response_format and structured_outputs exclude each other")
        return self


class CompletionRequest(Sampling):
    """POST /v1/completions."""

    prompt: (
        NonEmpty
        | Annotated[list[Token], Field(min_length=1)]
        | Annotated[list[NonEmpty], Field(min_length=1, max_length=128)]
        | Annotated[
            list[Annotated[list[Token], Field(min_length=1)]], Field(min_length=1, max_length=128)
        ]
    )
    echo: bool | None = None
    logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    best_of: int | None = None
    suffix: Literal[""] | None = None

    @model_validator(mode="after")
    def _best_is_all(self) -> CompletionRequest:
        if self.best_of not in (None, self.n or 1):
            raise ValueError("best_of other than n is not supported")
        return self

    @model_validator(mode="after")
    def _prompts_are_not_sampled(self) -> CompletionRequest:
        if self.echo and self.logprobs is not None and self.processed_logprobs:
            raise ValueError("echo with logprobs cannot be combined with processed_logprobs")
        return self


class ChatRequest(Sampling):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=4096)]
    max_completion_tokens: Annotated[int | None, Field(ge=1, lt=1 << 31)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    tools: Annotated[list[Tool] | None, Field(max_length=128)] = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: Annotated[dict[str, Any] | None, Field(max_length=16)] = None
    """Variables of the chat template, as enable_thinking."""

    @model_validator(mode="after")
    def _say_one_thing(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs true")
        lengths = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(lengths) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ; give one of them")
        if not self.tools and self.tool_choice not in (None, NO_TOOL):
            raise ValueError("tool_choice needs tools")
        return self

    @property
    def offered(self) -> list[Tool]:
        """The tools the model may call."""
        return [] if self.tool_choice == NO_TOOL else self.tools or []

    @property
    def many_calls(self) -> bool:
        """Whether a choice may have several calls."""
        return self.parallel_tool_calls is not False


class TokenizeRequest(Strict):
    """POST /tokenize: a text, or messages as the chat template writes them."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message] | None, Field(min_length=1, max_length=4096)] = None
    add_special_tokens: bool = True

    @model_validator(mode="after")
    def _one_of_two(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class DetokenizeRequest(Strict):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[Token]
