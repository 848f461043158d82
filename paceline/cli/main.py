"""The command `paceline`: its commands, and how every error becomes one line."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from paceline.cli.bench import bench
from paceline.cli.certify import certify
from paceline.cli.chat import chat
from paceline.cli.doctor import doctor
from paceline.cli.export import export
from paceline.cli.generate import generate
from paceline.cli.models import models
from paceline.cli.plan import plan
from paceline.cli.pull import pull
from paceline.cli.serve import serve
from paceline.cli.start import INTERRUPTED
from paceline.cli.theory import theory
from paceline.cli.train import train
from paceline.errors import ConfigError, PacelineError, RequestError


class DefaultCommand(TyperGroup):
    """Takes anything that is no command for the prompt of `generate`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command's name before its arguments."""
        given = args[0] if args else None
        piped = given is None and not sys.stdin.isatty()
        if piped or (given is not None and given not in {*self.commands, "--help", "--version"}):
            args = ["generate", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=DefaultCommand,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (generate, chat, serve, pull, models, theory, plan, certify, export, doctor):
    app.command()(command)
app.add_typer(bench, name="bench")
app.add_typer(train, name="train")


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        from importlib.metadata import version

        print(f"paceline {version('paceline')}")
        raise typer.Exit


@app.callback()
def paceline(
    show: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Lossless speculative decoding: a model's own text, several tokens per pass.

    A prompt alone is enough: paceline "def read_lines(path):"
    """


def main(args: list[str]) -> int:
    """Run one command line; return the exit code (2: usage, 1: failure, 130: interrupted)."""
    try:
        code = app(args=args, prog_name="paceline", standalone_mode=False) or 0
    except typer.TyperException as error:
        told = error.format_message()  # nothing where the help was shown instead
        return complain(told, error.exit_code) if told else error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except (ConfigError, RequestError) as error:
        return complain(error, 2)
    except PacelineError as error:
        return complain(error, 1)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return complain(f"{error.strerror or error}{where}", 1)
    return complain("interrupted", code) if code == INTERRUPTED else int(code)


def complain(problem: object, code: int) -> int:
    """Say on one line of stderr what is wrong."""
    print("paceline:", " ".join(str(problem).split()), file=sys.stderr)
    return code
