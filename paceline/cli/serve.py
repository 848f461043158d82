"""`paceline serve`: the model behind OpenAI's HTTP API."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import defaults, options
from paceline.cli.prompts import read_text
from paceline.cli.session import engine_options, load
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from paceline.server.settings import ServerConfig

SERVER = "Server"
LOOPBACK = "127.0.0.1"
NEEDED = ("starlette", "uvicorn", "pydantic", "prometheus_client")
LOGS = {"RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0"}
"""So that Ray passes every line of the replicas' logs on, as it is."""


def _option(*names: str, help: str, **limits: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=SERVER, **limits)


Host = Annotated[str, _option("--host", help="Address to listen on; 0.0.0.0 for every one.")]
Port = Annotated[int, _option("--port", min=0, max=65535, help="0 takes a free one.")]
ApiKey = Annotated[
    list[str] | None,
    _option(
        "--api-key",
        envvar="PACELINE_API_KEYS",
        show_envvar=True,
        help="A key that opens the server; repeatable. The variable keeps keys out of process "
        "lists, with blanks between several.",
    ),
]
Concurrency = Annotated[
    int, _option("--max-concurrency", min=1, help="Outputs that are written at once.")
]
Queue = Annotated[
    int, _option("--max-queue", min=0, help="Outputs that may wait; beyond, 429 is answered.")
]
Choices = Annotated[
    int, _option("--max-choices", min=1, help="Outputs of one request: its prompts times n.")
]
BodyBytes = Annotated[int, _option("--max-body-bytes", min=1, help="Size of a request.")]
Timeout = Annotated[
    float, _option("--request-timeout", min=0.001, help="Seconds until a reply must have ended.")
]
Drain = Annotated[
    float, _option("--drain-timeout", min=0.001, help="Seconds that replies have after SIGTERM.")
]
Origin = Annotated[
    list[str] | None,
    _option("--cors-origin", help="Origin whose pages may call the server; repeatable."),
]
Name = Annotated[str | None, _option("--served-model-name", help="What requests call the model.")]
Template = Annotated[
    Path | None, _option("--chat-template", help="Jinja file in place of the model's template.")
]
Replicas = Annotated[
    int,
    _option(
        "--replicas",
        min=1,
        help="Servers of the model behind one address, on Ray Serve; needs 'paceline[cluster]'.",
    ),
]
TokenEvents = Annotated[
    bool, _option("--token-events", help="Stream an event a token, with where it came from.")
]


def serve(
    model: options.Model = defaults.MODEL,
    draft: options.Draft = None,
    k: options.K = None,
    max_k: options.MaxK = None,
    plan: options.Plan = None,
    rule: options.Rule = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "cpu",
    kernels: options.Kernels = "auto",
    quantize: options.Quantize = None,
    kv_dtype: options.KVDtype = "auto",
    threads: options.Threads = None,
    max_model_len: options.MaxModelLen = None,
    host: Host = LOOPBACK,
    port: Port = 8000,
    api_key: ApiKey = None,
    max_concurrency: Concurrency = 16,
    max_queue: Queue = 64,
    max_choices: Choices = 16,
    max_body_bytes: BodyBytes = 4 << 20,
    request_timeout: Timeout = 600.0,
    drain_timeout: Drain = 60.0,
    cors_origin: Origin = None,
    served_model_name: Name = None,
    chat_template: Template = None,
    token_events: TokenEvents = False,
    replicas: Replicas = 1,
) -> None:
    """Serve the model over HTTP as OpenAI's clients speak it, with a page to watch it at /.

    Speculation can be chosen request by request; docs/server.md tells how.
    """
    given = dict(locals()) | {"k": defaults.length_of(draft, k)}
    needed = NEEDED if replicas == 1 else (*NEEDED, "ray")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        extra = "cluster" if "ray" in missing else "server"
        raise ConfigError(
            f"The server needs {' and '.join(missing)}; pip install 'paceline[{extra}]'."
        )
    from paceline.server.journal import log_to_stderr
    from paceline.server.run import bind
    from paceline.server.run import serve as serve_app

    config = server_config(given)
    with ExitStack() as stack:
        listening = stack.enter_context(bind(config))
        app = one_server(given, config) if replicas == 1 else cluster(given, config, stack)
        log_to_stderr()
        address, actual = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        print(
            f"Serving {config.model_name} on http://{shown}:{actual}", file=sys.stderr, flush=True
        )
        serve_app(app, config, listening)


def one_server(given: dict[str, Any], config: ServerConfig) -> Starlette:
    """The application in this process."""
    from paceline.server.app import build_app

    llm = load(given["model"], given["draft"], given["max_concurrency"], **engine_options(given))
    return build_app(llm, config)


def cluster(given: dict[str, Any], config: ServerConfig, stack: ExitStack) -> Starlette:
    """The application that hands on to replicas, which live until the stack is left.

    On SIGHUP they are replaced in turn.
    """
    for name, value in LOGS.items():
        os.environ.setdefault(name, value)
    from paceline.server.cluster import running
    from paceline.server.front import build_front

    count, at_once = given["replicas"], given["max_concurrency"]
    settings = engine_options(given)
    settings["max_num_requests"] = at_once
    if "RAY_ADDRESS" not in os.environ:  # they share this machine
        settings.setdefault("threads", max(1, (os.cpu_count() or 1) // count))
    replicas = stack.enter_context(running(count, at_once, config))
    drafts = defaults.drafts_of(given["model"], given["draft"])
    replicas.deploy(given["model"], drafts, settings, config)
    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=replicas.roll).start())
    return build_front(replicas, count * at_once, config)


def server_config(given: dict[str, Any]) -> ServerConfig:
    """The server's settings among the command's options; raises ConfigError for bad ones."""
    from paceline.server.settings import Limits, ServerConfig

    template = given["chat_template"]
    return ServerConfig(
        host=given["host"],
        port=given["port"],
        api_keys=tuple(given["api_key"] or ()),
        cors_origins=tuple(given["cors_origin"] or ()),
        model_name=given["served_model_name"] or Path(given["model"]).name,
        chat_template=read_text(template) if template else None,
        token_events=given["token_events"],
        limits=Limits(
            max_queue=given["max_queue"],
            max_choices=given["max_choices"],
            max_body_bytes=given["max_body_bytes"],
            request_timeout_s=given["request_timeout"],
            drain_timeout_s=given["drain_timeout"],
        ),
    )
