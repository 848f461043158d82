"""A prompt told with its completion, and what the model thinks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.drafters import OFF
from paceline.engine import LLM, AsyncLLM
from paceline.models import Tokenizer
from paceline.server.logprobs import TextLogprobs
from paceline.types import SamplingParams, Speculation, TokenLogprobs

Told = Sequence[TokenLogprobs | None]


@dataclass(frozen=True)
class Prompt:
    """A prompt as ids and as text."""

    ids: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, llm: LLM, given: str | Sequence[int]) -> Prompt:
        """A prompt as it was sent; raises RequestError for half a surrogate pair."""
        if isinstance(given, str):
            return cls(tuple(llm.encode(given)), given)
        return cls(tuple(given), llm.tokenizer.decode(given))


async def score(llm: AsyncLLM, prompts: Sequence[Prompt], top: int) -> list[Told]:
    """Each prompt's log-probabilities, by requests that write one token of no use."""
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=top)
    asked = [llm.request(prompt.ids, params, Speculation(drafter=OFF)) for prompt in prompts]
    async with await llm.start(asked) as batch:
        outputs = {event.index: event.output async for event in batch if event.output}
    return [outputs[index].prompt_logprobs or () for index in range(len(prompts))]


def prompt_values(tokenizer: Tokenizer, prompt: Prompt, told: Told) -> dict[str, Any]:
    """The prompt's tokens and their values as completions have them."""
    values, stream = TextLogprobs(tokenizer), tokenizer.stream()
    for token, own in zip(prompt.ids, told, strict=True):
        values.add(token, stream.push(token), own)
    return values.lists
