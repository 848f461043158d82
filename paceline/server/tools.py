"""Tool calls as Hermes writes them, and Qwen: JSON between <tool_call> and </tool_call>."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paceline.server.failures import ApiError
from paceline.server.messages import NamedTool, Tool
from paceline.server.schemas import ChatRequest, TextFormat
from paceline.structured import StructuredOutput

OPEN, CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True)
class Call:
    """A call that the model wrote."""

    index: int
    id: str
    name: str
    arguments: str
    """JSON."""

    @property
    def delta(self) -> dict[str, Any]:
        """As a chat chunk has it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.index, "id": self.id, "type": "function", "function": function}


class CallReader:
    """Splits text that comes in any pieces into content and calls.

    What may be the start of a call is held back until it is one or is none. A call that is never
    closed, or is no call, is content: nothing is lost, but for calls after the first one where
    only one is wanted.
    """

    def __init__(self, call_id: str, reads: bool, many: bool = True) -> None:
        """Calls get `call_id` with a number; everything is content unless it `reads`."""
        self._id, self._reads, self._many = call_id, reads, many
        self._held, self._in_text = "", False
        """Blanks alone wait, since around calls they belong to neither."""
        self.count = 0

    def push(self, text: str) -> list[str | Call]:
        """The content and the calls that became sure."""
        if not self._reads:
            return [text] if text else []
        self._held += text
        return [*self._sure()]

    def finish(self) -> list[str | Call]:
        """What was held back."""
        held, self._held = self._held, ""
        return [held] if held and (held.strip() or not self.count) else []

    def _sure(self) -> Iterator[str | Call]:
        while True:
            start = self._held.find(OPEN)
            if start < 0:
                start = len(self._held) - _overlap(self._held, OPEN)
            lead = self._held[:start]
            if lead and (self._in_text or lead.strip()):
                self._in_text = True
                yield lead
                lead, self._held = "", self._held[start:]
            end = self._held.find(CLOSE) + len(CLOSE)
            if not self._held.startswith(OPEN, len(lead)) or end < len(CLOSE):
                return
            whole, self._held = self._held[len(lead) : end], self._held[end:]
            call = self._call(whole)
            self._in_text = call is None
            if call is None:
                yield lead + whole
            elif self._many or not self.count:
                self.count += 1
                yield call

    def _call(self, text: str) -> Call | None:
        """The call that comes next, if it is one."""
        try:
            match json.loads(text[len(OPEN) : -len(CLOSE)]):
                case {"name": str(name), "arguments": dict(arguments)}:
                    written = json.dumps(arguments, ensure_ascii=False)
                    return Call(self.count, f"{self._id}_{self.count}", name, written)
        except (ValueError, RecursionError):
            pass
        return None


def _overlap(text: str, mark: str) -> int:
    """The length of the longest end of `text` that begins `mark`."""
    lengths = range(min(len(text), len(mark) - 1), 0, -1)
    return next((n for n in lengths if mark.startswith(text[-n:])), 0)


def call_grammar(ask: ChatRequest) -> StructuredOutput | None:
    """What the output must be where a call is required, or where the tools are strict.

    Raises:
        ApiError: the choice names no tool, or the output has a form of its own as well.
    """
    tools, choice = ask.offered, ask.tool_choice or "auto"
    if isinstance(choice, NamedTool):
        tools = [tool for tool in tools if tool.function.name == choice.function.name]
        if not tools:
            name = choice.function.name
            raise ApiError(400, f"tool_choice names '{name}', which is no tool.", "tool_choice")
    strict = any(tool.function.strict for tool in tools)
    if not tools or (choice == "auto" and not strict):
        return None
    if ask.structured_outputs or not isinstance(ask.response_format, TextFormat | None):
        raise ApiError(400, "response_format cannot be combined with tools.", "response_format")
    many = ask.many_calls and not isinstance(choice, NamedTool)
    return StructuredOutput(grammar=grammar_of(tools, optional=choice == "auto", many=many))


def grammar_of(tools: list[Tool], optional: bool, many: bool) -> str:
    """A Lark grammar of calls; if they are `optional`, of text with calls in it, too.

    Each tool's parameters are a schema of their own, so that its references stay in it.
    """
    lines = []
    for number, tool in enumerate(tools):
        name = json.dumps(f'{{"name": "{tool.function.name}", "arguments": ')
        schema = tool.function.parameters or {"type": "object", "properties": {}}
        lines.append(f'call_{number}: {name} args_{number} "}}"')
        lines.append(f"args_{number}: %json {json.dumps(schema)}")
    any_call = " | ".join(f"call_{number}" for number in range(len(tools)))
    body = f'body: "\\n" ({any_call}) "\\n" {json.dumps(CLOSE)}'
    repeat = "*" if many else "?"
    if optional:  # the lazy lexeme ends at the first mark, and with it the freedom of the text
        free = f"(?s:.*){OPEN}"
        start = f"start: (lead body){repeat} REST"
        rules = [f"lead[lazy]: /{free}/", f"REST: /(?s:.*)/ & ~/{free}(?s:.*)/"]
    else:
        start = f'start: call ("\\n" call){repeat}' if many else "start: call"
        rules = [f"call: {json.dumps(OPEN)} body"]
    return "\n".join([start, *rules, body, *lines])
