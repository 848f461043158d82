"""`paceline bench serve`: load on a running server."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from paceline.cli import options
from paceline.errors import ConfigError

Url = Annotated[str, typer.Option("--url", help="Where the server listens.")]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", envvar="PACELINE_API_KEYS", help="A key that opens it.")
]
Clients = Annotated[int, typer.Option("--clients", min=1, help="Clients at once.")]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="How long.")]
Requests = Annotated[int | None, typer.Option("--requests", min=1, help="How many, instead.")]
Rough = Annotated[
    bool,
    typer.Option(
        "--rough/--smooth",
        help="Rough clients hang up, ask wrongly and mix drafters and settings, and hold every "
        "text to the one without speculation; smooth ones want greedy text.",
    ),
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", min=1, help="What a smooth client wants of each request.")
]


def serve(
    url: Url = "http://127.0.0.1:8000",
    api_key: ApiKey = None,
    clients: Clients = 16,
    seconds: Seconds = None,
    requests: Requests = None,
    rough: Rough = False,
    max_tokens: MaxTokens = 128,
    as_json: options.Json = False,
) -> int:
    """Load a running server with many clients; exit with 1 if one got what it should not."""
    from paceline.bench.http_client import Client
    from paceline.bench.online import run_load

    if seconds is not None and requests is not None:
        raise ConfigError("--seconds and --requests exclude each other.")
    limit = 30.0 if seconds is None and requests is None else seconds
    wanted = None if rough else max_tokens
    load = asyncio.run(run_load(Client(url, api_key), clients, wanted, limit, requests))
    told = load.as_record()
    if as_json:
        print(json.dumps(told))
    else:
        for name, value in told.items():
            print(f"{name:18} {value}")
    return 1 if load.wrong or load.blocks_left else 0
