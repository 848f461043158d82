"""/v1/completions: text goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.server.asks import params_of, speculation_of
from paceline.server.echo import Prompt, prompt_values, score
from paceline.server.failures import ApiError
from paceline.server.form import Chunk, Form
from paceline.server.generation import Generation, Service
from paceline.server.logprobs import TextLogprobs
from paceline.server.pieces import Piece
from paceline.server.schemas import CompletionRequest
from paceline.server.tokens import grouped
from paceline.types import Request

MAX_TOKENS = 16
"""OpenAI's default for completions."""


def prompts_of(service: Service, ask: CompletionRequest) -> list[Prompt]:
    """The prompts of a body, read with the model's tokenizer."""
    given: Any = ask.prompt if isinstance(ask.prompt, list) else [ask.prompt]
    rows = [given] if isinstance(given[0], int) else given
    return [Prompt.of(service.llm.llm, row) for row in rows]


def requests_of(
    service: Service, ask: CompletionRequest, prompts: Sequence[Prompt], owner: str
) -> list[Request]:
    """A request for each sample of each prompt.

    Raises:
        ApiError, RequestError: a value is wrong, or there are too many outputs.
    """
    limit = service.config.limits.max_choices
    if len(prompts) * (ask.n or 1) > limit:
        raise ApiError(400, f"n times prompts must be at most {limit}.", "n", "too_many_outputs")
    params = params_of(ask, max_tokens=ask.max_tokens or MAX_TOKENS, logprobs=ask.logprobs)
    speculation = speculation_of(ask, service.names, service.llm.llm.tokenizer)
    return [
        service.llm.request(prompt.ids, params, speculation, choice, owner)
        for prompt in prompts
        for choice in range(params.n)
    ]


@dataclass
class CompletionForm(Form):
    """Chunks and replies of kind text_completion."""

    ask: CompletionRequest
    prompts: Sequence[Prompt]

    chunk_kind = reply_kind = "text_completion"
    id_prefix = "cmpl"

    async def chunks(self, generation: Generation) -> AsyncIterator[Chunk]:
        """What was echoed, then the pieces as they come, the end of each choice, the usage."""
        offsets = [0] * len(generation.requests)
        if self.ask.echo:
            async for chunk in self._echo(generation, offsets):
                yield chunk
        async for written in generation:
            index = written.index
            for pieces in grouped(written.pieces, self.one_by_one):
                text = "".join(piece.text for piece in pieces)
                if text or self.one_by_one or self.ask.logprobs is not None:
                    values = self._values(pieces, offsets[index])
                    yield self.chunk(index, text=text, logprobs=values, **self.told(pieces))
                offsets[index] += len(text)
            if written.output:
                reason = written.output.finish_reason.value
                yield self.chunk(index, text="", logprobs=None, finish_reason=reason)
        yield self.usage(generation)

    def empty(self, index: int) -> dict[str, Any]:
        """A choice without anything."""
        return {"index": index, "text": "", "logprobs": None, "finish_reason": None}

    async def _echo(self, generation: Generation, offsets: list[int]) -> AsyncIterator[Chunk]:
        """A chunk with the prompt for each choice."""
        scores = None
        if (top := self.ask.logprobs) is not None:
            scores = await score(self.service.llm, self.prompts, top)
        for index in range(len(offsets)):
            place = index // (self.ask.n or 1)
            prompt, values = self.prompts[place], None
            if scores:
                values = prompt_values(self.service.llm.llm.tokenizer, prompt, scores[place])
            offsets[index] = len(prompt.text)
            yield self.chunk(index, text=prompt.text, logprobs=values)

    def _values(self, pieces: Sequence[Piece], offset: int) -> dict[str, Any] | None:
        if self.ask.logprobs is None:
            return None
        values = TextLogprobs(self.service.llm.llm.tokenizer, offset)
        for piece in pieces:
            values.add(piece.token, piece.text, piece.logprobs)
        return values.lists
