"""The options of `paceline certify` alone, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import options

CHECKS = "Checks; the first three quickly where none is named"
SERVERS = "Checks of other servers, by OpenAI's HTTP API"

Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Every rule by enumeration in exact fractions; needs no model.",
        rich_help_panel=CHECKS,
    ),
]
Law = Annotated[
    bool,
    typer.Option(
        "--law",
        help="The law of sampled text against the model's own, by tests of stated power.",
        rich_help_panel=CHECKS,
    ),
]
Parity = Annotated[
    bool,
    typer.Option(
        "--parity",
        help="The same ids with speculation on and off, greedy or seeded.",
        rich_help_panel=CHECKS,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Fewer cases, samples and prompts.", rich_help_panel=CHECKS),
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        min=1000,
        help="Outputs for --law and --endpoint to take, however long it takes.",
        rich_help_panel=CHECKS,
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Rule for --law to sample by; by default that of a request without a seed.",
        rich_help_panel=CHECKS,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Write the certificate, in Markdown.", rich_help_panel=options.RESULT
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="Sample from this server and test its text against the exact law of --model. A key is"
        " read from the variable PACELINE_ENDPOINT_KEY.",
        rich_help_panel=SERVERS,
    ),
]
EndpointB = Annotated[
    str | None,
    typer.Option(
        "--endpoint-b",
        metavar="URL",
        help="Test whether both servers have one law; no local model. A key is read from"
        " PACELINE_ENDPOINT_B_KEY.",
        rich_help_panel=SERVERS,
    ),
]
ServedModel = Annotated[
    str | None,
    typer.Option(
        "--served-model",
        help="The server's name of the model; its only one by default.",
        rich_help_panel=SERVERS,
    ),
]
ServedModelB = Annotated[
    str | None,
    typer.Option("--served-model-b", help="The name at --endpoint-b.", rich_help_panel=SERVERS),
]
