"""/v1/chat/completions: messages are answered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.errors import ModelFileError, RequestError
from paceline.models import render_chat
from paceline.server.asks import params_of, speculation_of, text_of
from paceline.server.failures import ApiError
from paceline.server.form import Chunk, Form
from paceline.server.generation import Generation, Service
from paceline.server.logprobs import chat_entries
from paceline.server.messages import Message
from paceline.server.pieces import Piece
from paceline.server.schemas import ChatRequest
from paceline.server.tokens import grouped
from paceline.server.tools import Call, CallReader, call_grammar
from paceline.types import FinishReason, Request

TEMPLATES_OWN = ("messages", "add_generation_prompt", "tools", "template", "tokenizer")


def prompt_ids(service: Service, ask: ChatRequest) -> tuple[int, ...]:
    """The messages as the model's chat template writes them.

    Raises:
        ApiError, RequestError: the template does not take them, or there is none.
    """
    llm, variables = service.llm.llm, ask.chat_template_kwargs or {}
    taken = [name for name in variables if name in TEMPLATES_OWN or not name.isidentifier()]
    if taken:
        raise ApiError(
            400, f"chat_template_kwargs cannot set '{taken[0]}'.", "chat_template_kwargs"
        )
    tools = [tool.model_dump(exclude_none=True) for tool in ask.offered]
    messages = [as_template_reads(message) for message in ask.messages]
    template = service.config.chat_template
    try:
        text = render_chat(
            llm.tokenizer, messages, template=template, tools=tools or None, **variables
        )
    except ModelFileError as error:
        raise RequestError(f"The chat template cannot write these messages: {error}") from error
    return tuple(llm.encode(text, rendered=True))


def as_template_reads(message: Message) -> dict[str, Any]:
    """A message as chat templates know it: text for content, arguments as objects."""
    role = "system" if message.role == "developer" else message.role
    told: dict[str, Any] = {"role": role, "content": text_of(message.content)}
    if message.name is not None:
        told["name"] = message.name
    if message.tool_call_id is not None:
        told["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        told["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": _arguments(call.function)},
            }
            for call in message.tool_calls
        ]
    return told


def _arguments(function: Any) -> Any:
    try:
        return json.loads(function.arguments)
    except (ValueError, RecursionError) as error:
        message = f"The arguments of the call of '{function.name}' are not JSON."
        raise ApiError(400, message, "messages") from error


def requests_of(service: Service, ask: ChatRequest, owner: str) -> list[Request]:
    """A request for each sample.

    Raises:
        ApiError, RequestError: a value is wrong, or there are too many outputs.
    """
    limit = service.config.limits.max_choices
    if (ask.n or 1) > limit:
        raise ApiError(400, f"n must be at most {limit}.", "n", "too_many_outputs")
    llm = service.llm.llm
    own: dict[str, Any] = {
        "max_tokens": ask.max_completion_tokens or ask.max_tokens or llm.engine.max_model_len,
        "logprobs": (ask.top_logprobs or 0) if ask.logprobs else None,
    }
    if (grammar := call_grammar(ask)) is not None:
        own["structured"] = grammar
    params = params_of(ask, **own)
    speculation = speculation_of(ask, service.names, llm.tokenizer)
    ids = prompt_ids(service, ask)
    return [
        service.llm.request(ids, params, speculation, choice, owner) for choice in range(params.n)
    ]


@dataclass
class ChatForm(Form):
    """Chunks of kind chat.completion.chunk, replies of kind chat.completion."""

    ask: ChatRequest

    chunk_kind, reply_kind = "chat.completion.chunk", "chat.completion"
    id_prefix = "chatcmpl"

    async def chunks(self, generation: Generation) -> AsyncIterator[Chunk]:
        """The role, then content and calls as they come, the end of each choice, the usage."""
        readers = [self._reader(i) for i in range(len(generation.requests))]
        begun = set[int]()
        async for written in generation:
            index, reader = written.index, readers[written.index]
            if index not in begun:
                begun.add(index)
                yield self._delta(index, {"role": "assistant", "content": ""})
            for pieces in grouped(written.pieces, self.one_by_one):
                for chunk in self._texts(index, reader, pieces):
                    yield chunk
            if written.output:
                for part in reader.finish():
                    yield self._delta(index, self._content(part))
                yield self._delta(
                    index, {}, finish_reason=self._reason(written.output.finish_reason, reader)
                )
        yield self.usage(generation)

    def empty(self, index: int) -> dict[str, Any]:
        """A choice without anything."""
        message = {"role": "assistant", "content": "", "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": None}

    def add(self, choice: dict[str, Any], part: dict[str, Any]) -> None:
        """The delta goes into the message."""
        delta, message = dict(part["delta"]), choice["message"]
        super().add(choice, {key: value for key, value in part.items() if key != "delta"})
        for call in delta.pop("tool_calls", ()):
            own = {key: value for key, value in call.items() if key != "index"}
            message.setdefault("tool_calls", []).append(own)
        message["content"] += delta.get("content", "")

    def whole(self, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """As ever, but calls without a word beside them have null for content."""
        reply = super().whole(chunks)
        for message in (choice["message"] for choice in reply["choices"]):
            if "tool_calls" in message and not message["content"]:
                message["content"] = None
        return reply

    def _reader(self, index: int) -> CallReader:
        call_id, reads = f"call_{self.reply_id}_{index}", bool(self.ask.offered)
        return CallReader(call_id, reads, many=self.ask.many_calls)

    def _texts(self, index: int, reader: CallReader, pieces: Sequence[Piece]) -> list[Chunk]:
        """The chunks of one event: what the pieces tell goes with the first of them."""
        parts = reader.push("".join(piece.text for piece in pieces))
        deltas = [self._content(part) for part in parts]
        extra: dict[str, Any] = self.told(pieces)
        if self.ask.logprobs:
            told = [piece.logprobs for piece in pieces if piece.logprobs]
            entries = chat_entries(self.service.llm.llm.tokenizer, told)
            extra["logprobs"] = {"content": entries, "refusal": None}
        if extra and not deltas:
            deltas = [{"content": ""}]
        return [
            self._delta(index, delta, **(extra if place == 0 else {}))
            for place, delta in enumerate(deltas)
        ]

    def _content(self, part: str | Call) -> dict[str, Any]:
        return {"content": part} if isinstance(part, str) else {"tool_calls": [part.delta]}

    def _delta(self, index: int, delta: dict[str, Any], **extra: Any) -> Chunk:
        return self.chunk(index, delta=delta, **{"logprobs": None, **extra})

    def _reason(self, reason: FinishReason, reader: CallReader) -> str:
        called = reader.count and reason is FinishReason.STOP
        return "tool_calls" if called else reason.value
