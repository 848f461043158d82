"""The command: its default, its exit codes, its one-line errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module

import pytest

from paceline.cli import main as cli_main
from paceline.errors import CacheError, ConfigError, DownloadError, ModelFileError, RequestError
from paceline.models.aliases import ALIASES, EMBEDDED

# The package exports a function of the same name.
PULL = import_module("paceline.models.pull")
PACELINE = [sys.executable, "-m", "paceline"]
# Long enough to be interrupted in mid-stream.
ENDLESS = ["generate", "--draft", "none", "--max-tokens", "1000", "def fibonacci(n):"]


def one_line(text: str) -> str:
    assert text.startswith("paceline: ")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    return text


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["generate", "x", "--tempurature", "1"], 2, "No such option: --tempurature"),
        (["generate", "x", "--tempurature", "1"], 2, "--temperature"),
        (["--k", "four", "x"], 2, "Invalid value for '--k'"),
        (["x", "--temperature", "-1"], 2, "temperature must be finite and >= 0, not -1.0"),
        (["x", "--temperature", "nan"], 2, "temperature must be finite and >= 0, not nan"),
        (["x", "--top-p", "0"], 2, "top_p must be in (0, 1], not 0.0"),
        (["x", "--max-tokens", "0"], 2, "max_tokens must be >= 1, not 0"),
        (["x", "--stop", ""], 2, "stop must be a non-empty string"),
        (["x", "y"], 2, "unexpected extra argument"),
        ([""], 2, "The prompt is empty"),
        (["--prompt-file", "no/such/file"], 2, "Cannot read no/such/file: No such file"),
        (["--prompts", "no/such/file"], 2, "Cannot read no/such/file: No such file"),
        (["x", "--batch", "2"], 2, "--batch needs --prompts."),
        (["x", "--limit", "2"], 2, "--limit needs --prompts."),
        (["x", "--prompts", "f"], 2, "--prompts stands alone"),
        (["--stats", "--prompts", "f"], 2, "--stats is for one prompt"),
        (["x", "--color", "--json"], 2, "--color is for streamed text"),
        (["x", "--model", "minni"], 2, "did you mean 'mini'?"),
        (["x", "--draft", "ngrm"], 2, "did you mean 'ngram'?"),
        (["x", "--draft", "model"], 2, "needs model: model:VALUE"),
        (["x", "--rule", "gredy"], 2, "did you mean 'greedy'?"),
        (["x", "--k", "-1"], 2, "Invalid value for '--k'"),
        (["x", "--device", "nonsense"], 2, "device must be cpu, cuda or cuda:N, not 'nonsense'."),
        (["x", "--device", "cuda:99"], 2, "There is no device 'cuda:99'"),
        (["certify", "--parity", "--device", "tpu"], 2, "device must be cpu, cuda or cuda:N"),
        (["x", "--max-model-len", "0"], 2, "Invalid value for '--max-model-len'"),
        (["x = [1, 2]", "--max-model-len", "2"], 2, "shorten it to 1 or fewer"),
        (["chat"], 2, "mini has no chat template"),
        (["pull", "minni"], 2, "did you mean 'mini'?"),
        (["pull"], 2, "Missing argument"),
        (["certify", "--law", "--rule", "greedy"], 2, "exact at temperature 0 only"),
        (["certify", "--exact", "--out", "nowhere/c.md"], 2, "There is no folder nowhere"),
        (["certify", "--parity", "--temperature", "1"], 2, "add --seed N"),
        (["bench", "stepp"], 2, "No such command 'stepp'"),
    ],
)
def test_bad_input_is_one_line(cli, args, code, message):
    ran = cli(*args)
    assert message in one_line(ran.err)
    assert (ran.code, ran.out) == (code, "")


def test_prompt_beyond_the_context_is_one_line(cli):
    ran = cli("x " * 5000)
    assert "The prompt has" in one_line(ran.err)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("Bad\n  setting."), 2, "paceline: Bad setting.\n"),
        (RequestError("Bad request."), 2, "paceline: Bad request.\n"),
        (ModelFileError("a.gguf", "magic", "is 0"), 1, "paceline: a.gguf: magic: is 0\n"),
        (DownloadError("No network."), 1, "paceline: No network.\n"),
        (CacheError("Books."), 1, "paceline: Books.\n"),
        (PermissionError(13, "Permission denied", "a"), 1, "paceline: Permission denied: a\n"),
        (KeyboardInterrupt(), 130, "paceline: interrupted\n"),
    ],
)
def test_each_error_has_its_code(cli, monkeypatch, error, code, line):
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(PULL, "installed", fail)
    ran = cli("models")
    assert (ran.code, ran.out, ran.err) == (code, "", line)


def test_a_bug_keeps_its_traceback(cli, monkeypatch):
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(PULL, "installed", fail)
    with pytest.raises(ZeroDivisionError):
        cli("models")


@pytest.mark.parametrize("args", [["generate", "x"], ["chat"], ["certify", "--parity"]])
def test_the_context_length_reaches_the_engine(cli, monkeypatch, args):
    def load(*args: object, **settings: object) -> None:
        raise ConfigError(f"context {settings['max_model_len']}")

    monkeypatch.setattr(f"paceline.cli.{args[0]}.load", load)
    assert cli(*args, "--max-model-len", "4096").err == "paceline: context 4096\n"


@pytest.mark.parametrize("args", [["hello"], ["--k", "2", "hello"], ["generate", "hello"]])
def test_anything_that_is_no_command_is_a_prompt(cli, monkeypatch, args):
    asked = []

    def load(model: str, draft: object, batch: int, **settings: object) -> None:
        asked.append((model, draft, settings.get("k")))
        raise ConfigError("enough")

    monkeypatch.setattr("paceline.cli.generate.load", load)
    assert cli(*args).err == "paceline: enough\n"
    assert asked == [("mini", None, 2 if "--k" in args else None)]


def test_piped_text_alone_is_a_prompt(cli, monkeypatch):
    def load(*args: object, **settings: object) -> None:
        raise ConfigError("enough")

    monkeypatch.setattr("paceline.cli.generate.load", load)
    assert cli(stdin=b"hello").err == "paceline: enough\n"


def test_nothing_at_all_gets_help(cli):
    ran = cli()
    assert "Usage: paceline" in ran.out + ran.err


def test_version(cli):
    assert cli("--version") == (0, "paceline 0.1.0\n", "")


def test_models_lists_the_embedded_pair(cli):
    rows = {line.split()[0]: line.split()[1] for line in cli("models").out.splitlines()}
    assert rows["mini"] == rows["mini-draft"] == "embedded"


def test_models_tells_what_each_is_and_its_licence(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    rows = {line.split()[0]: line for line in cli("models").out.splitlines()}
    assert rows.keys() == {*EMBEDDED, *ALIASES}
    for name, model in {**EMBEDDED, **ALIASES}.items():
        assert f"  {model.description}  " in rows[name]
        assert f"  {model.licence}  " in rows[name]
    assert "Gemma terms of use" in rows["gemma3-270m"]


def test_pull_of_an_embedded_model_prints_its_folder(cli):
    ran = cli("pull", "mini")
    assert ran.code == 0
    assert os.path.isfile(os.path.join(ran.out.strip(), "config.json"))


def test_help_needs_no_torch():
    script = (
        "import sys; from paceline.cli.main import main; main(['--help'])\n"
        "heavy = {'torch', 'numpy', 'transformers', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_public_names_load_nothing_until_used():
    script = (
        "import sys, paceline; assert 'torch' not in sys.modules\n"
        "assert set(paceline.__all__) <= set(dir(paceline))\n"
        "for name in paceline.__all__: assert getattr(paceline, name).__name__ == name\n"
        "assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def start(*args: str) -> subprocess.Popen[bytes]:
    """A paceline whose first text is out."""
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        [*PACELINE, *args],
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        # A shell's background jobs ignore SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert running.stdout is not None
    assert running.stdout.read(1) != b""
    return running


def test_interrupt_in_mid_stream_is_one_line():
    running = start(*ENDLESS)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (cli_main.INTERRUPTED, b"paceline: interrupted\n")
    assert out.endswith(b"\n")


def test_broken_pipe_is_quiet():
    running = start(*ENDLESS)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(timeout=60) != 0
    running.stderr.close()


def test_interrupt_while_starting_is_one_line():
    code = (
        "import builtins, sys; from paceline.cli import start; real = builtins.__import__\n"
        "def stop(name, *rest):\n"
        "    if name == 'typer': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stop; start.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (cli_main.INTERRUPTED, b"paceline: interrupted\n")


def test_no_interrupt_is_lost_in_an_import():
    """torch imports numpy from C and drops what is raised meanwhile."""
    code = (
        "import builtins, sys; from paceline.cli import start; real = builtins.__import__\n"
        "def stop(name, *rest):\n"
        "    if name == 'torch': assert 'numpy' in sys.modules; raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stop; sys.argv = ['paceline', 'generate', 'x']; start.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (cli_main.INTERRUPTED, b"paceline: interrupted\n")


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_closed_streams(closed):
    """As a daemon's are: a prompt that was given runs, and what is closed is not written to."""
    number = {"stdin": 0, "stdout": 1, "stderr": 2}[closed]
    done = subprocess.run(
        [*PACELINE, "generate", "def f(x):", "--max-tokens", "4"],
        stdin=None if closed == "stdin" else subprocess.DEVNULL,
        stdout=None if closed == "stdout" else subprocess.PIPE,
        stderr=None if closed == "stderr" else subprocess.PIPE,
        preexec_fn=lambda: os.close(number),
        check=False,
    )
    assert done.returncode == 0
    assert not done.stderr
    assert closed == "stdout" or done.stdout.strip()


def test_a_group_without_a_command_shows_its_help_and_no_complaint(cli):
    ran = cli("bench")
    assert ran.code == 2
    assert "paceline:" not in ran.err
