"""Messages -> the text a model expects, by the chat template its files carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.exceptions import SecurityError, TemplateSyntaxError

from paceline.errors import ModelFileError, RequestError
from paceline.models import sandbox
from paceline.models.tokenizer import Tokenizer

Message = Mapping[str, Any]
"""{"role": ..., "content": ...}, and what else a template may know."""

_BROKEN = (TemplateSyntaxError, SyntaxError, SecurityError, MemoryError, RecursionError)


def render_chat(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    template: str | None = None,
    **variables: Any,
) -> str:
    """Write messages as the model's template has them, up to the assistant's turn.

    The text is encoded with `parse_special=True` and `add_special=False`: it starts with bos where
    the template writes one, and only there. Text of a message that reads like a special token then
    becomes that token, as in other engines: whoever takes messages from strangers and cannot have
    that must refuse them.
    `template` is Jinja source to use in place of the model's own;
    `variables` (tools, enable_thinking, ...) are handed to the template.

    Raises:
        RequestError: the model has no template, or the template does not take these messages.
        ModelFileError: the template is broken, or does what no template may.
    """
    source, path = template or tokenizer.chat_template, tokenizer.special.path
    if source is None:
        raise RequestError("This model has no chat template; send the prompt as it is (raw).")
    _check(messages)
    names = _token_names(tokenizer)
    own = {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
    try:
        return sandbox.run(source, {"tools": None, "documents": None, **names, **variables, **own})
    except _BROKEN as error:
        problem = str(error) or type(error).__name__
        raise ModelFileError(path, "chat_template", problem) from error
    except Exception as error:  # templates stumble on messages in every way Python knows
        raise RequestError(
            f"The model's chat template does not take these messages: {error}"
        ) from error


def _token_names(tokenizer: Tokenizer) -> dict[str, str]:
    ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    names = {key: tokenizer.id_to_token(i) for key, i in ids.items() if i is not None}
    return {key: name for key, name in names.items() if name is not None}


def _check(messages: Sequence[Message]) -> None:
    if not messages:
        raise RequestError("A chat needs at least one message.")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(f"messages[{index}] must be an object with a role.")
