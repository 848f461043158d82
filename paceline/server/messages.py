"""The messages and tools of a conversation, as OpenAI writes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Strict(BaseModel):
    """Nothing is converted, nothing unknown is let through."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TextPart(Strict):
    """A piece of a message."""

    type: Literal["text"]
    text: str


Content = str | Annotated[list[TextPart], Field(max_length=256)]


class FunctionCall(Strict):
    """A call the model made."""

    name: str
    arguments: str


class ToolCall(Strict):
    """A call in an assistant's message."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(Strict):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall] | None, Field(max_length=128)] = None
    tool_call_id: str | None = None
    refusal: None = None

    @model_validator(mode="after")
    def _has_what_its_role_needs(self) -> Message:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("a message needs content")
        if self.tool_calls is not None and self.role != "assistant":
            raise ValueError("tool_calls are the assistant's")
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("tool_call_id is for the role tool, which needs it")
        return self


class FunctionSpec(Strict):
    """A function the model may call."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Strict):
    """A tool; functions are the only kind."""

    type: Literal["function"]
    function: FunctionSpec


class FunctionName(Strict):
    """A function by name."""

    name: str


class NamedTool(Strict):
    """The tool that must be called."""

    type: Literal["function"]
    function: FunctionName
