"""A server that speaks OpenAI's completions, asked for short samples."""

from __future__ import annotations

import functools
import json
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from paceline.certify.forced import TOKENS, TOP_K
from paceline.errors import ConfigError, EndpointError

TIMEOUT_S = 120.0
MOST_BYTES = 1 << 24
"""A longer reply is none to a request for a few tokens."""

LAW = {
    "temperature": 1.0,
    "top_k": TOP_K,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "max_tokens": TOKENS,
}
"""What shapes the law is said even where it changes nothing: servers have defaults of their own,
the model's or theirs. There is no seed: each sample is to be a draw of its own."""


class RefusedError(EndpointError):
    """The server took the request for a wrong one."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a server is and what it calls the model."""

    url: str
    """Without /v1."""
    model: str
    key: str | None = field(default=None, repr=False)

    def complete(self, prompt: str | Sequence[int], count: int) -> list[str]:
        """Sample texts under LAW: `count`, or as many as the server gives at a time.

        Raises:
            RefusedError: the server does not take `count`, the prompt or a field of LAW.
            EndpointError: it cannot be reached, is closed to this key, or answers otherwise.
        """
        body = {"model": self.model, "prompt": prompt, "n": count, **LAW}
        found = ask(self.url, "completions", self.key, body)
        try:
            texts = [choice["text"] for choice in found["choices"]]
        except (KeyError, TypeError) as error:
            raise other_shape(self.url, "completions", "no choices with a text") from error
        if not texts or not all(isinstance(text, str) for text in texts):
            raise other_shape(self.url, "completions", "no choices with a text")
        return texts


def connect(url: str, model: str | None = None, key: str | None = None) -> Endpoint:
    """The server at a URL, with or without /v1; of its models the one named, or its only one.

    Raises:
        ConfigError: the URL is none of a server, or holds a secret.
        EndpointError: as `Endpoint.complete`, or the server has several models.
    """
    no_url = ConfigError(f"An endpoint is a URL, as http://127.0.0.1:8000, not '{url}'.")
    try:
        where = urlsplit(url)
        usable = where.scheme in {"http", "https"} and where.hostname and where.port != 0
    except ValueError as error:
        raise no_url from error
    if not usable:
        raise no_url
    if where.username or where.password or where.query:
        raise ConfigError(
            f"The URL of {where.hostname} holds more than an address; a key belongs in"
            " PACELINE_ENDPOINT_KEY, where no certificate shows it."
        )
    base = url.rstrip("/").removesuffix("/v1")
    return Endpoint(url=base, model=model or only_model(base, key), key=key)


def only_model(url: str, key: str | None) -> str:
    """The name under which the server serves its one model."""
    found = ask(url, "models", key)
    try:
        names = [str(entry["id"]) for entry in found["data"]]
    except (KeyError, TypeError) as error:
        raise other_shape(url, "models", "no list of models") from error
    if len(names) != 1:
        told = ", ".join(names[:5]) or "no model"
        raise EndpointError(f"{url} serves {told}; say which is meant by --served-model NAME.")
    return names[0]


def ask(url: str, path: str, key: str | None, body: dict[str, Any] | None = None) -> Any:
    """The JSON of a reply; raises EndpointError, of which RefusedError for a 400 or 422."""
    where = f"{url}/v1/{path}"
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(where, data=data, headers=headers)
    try:
        with opener().open(request, timeout=TIMEOUT_S) as reply:
            return json.loads(reply.read(MOST_BYTES))
    except HTTPError as error:
        raise unsuccessful(where, error, key) from error
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, TimeoutError):
            raise EndpointError(f"{where} did not answer within {TIMEOUT_S:g} s.") from error
        raise EndpointError(f"{where} cannot be reached ({cause}); is the server up?") from error
    except (ValueError, RecursionError) as error:
        raise other_shape(url, path, "no JSON") from error


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a key is for the server that was named."""

    def redirect_request(self, *of: Any) -> None:
        """Not to another place."""


@functools.cache
def opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS, through the proxies that the environment names."""
    return urllib.request.build_opener(NoRedirect)


def unsuccessful(where: str, error: HTTPError, key: str | None) -> EndpointError:
    """What a status other than 200 means, with what the server says of it."""
    with error:
        said = message_of(error.read(1 << 12))
    said = said.replace(key, "…") if key else said
    told = f"{error.code}: {said}" if said else f"{error.code}"
    match error.code:
        case 401 | 403:  # such replies may quote the key, or a part of it
            return EndpointError(
                f"{where} wants another key ({error.code}); put it in PACELINE_ENDPOINT_KEY"
                " (PACELINE_ENDPOINT_B_KEY for --endpoint-b)."
            )
        case 400 | 422:
            return RefusedError(
                f"{where} refuses the request ({told}); an audit needs a server that takes prompts"
                f" of ids, {', '.join(LAW)}."
            )
        case 404 | 405:
            return EndpointError(f"{where} does not exist ({told}); are URL and model right?")
        case 429 | 503:
            return EndpointError(f"{where} is busy ({told}); try again when it is not.")
    return EndpointError(f"{where} answers {told}; its log may say why.")


def message_of(body: bytes) -> str:
    """A server's own words for an error: OpenAI's form, others' forms, or plain text."""
    text = body.decode(errors="replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text[:200].strip()
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return str(found)[:200]


def other_shape(url: str, path: str, problem: str) -> EndpointError:
    """The error of a reply that is none of OpenAI's."""
    return EndpointError(
        f"{url}/v1/{path} does not answer as an OpenAI-compatible server does ({problem});"
        " is the URL right?"
    )
