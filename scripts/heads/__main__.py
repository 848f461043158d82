"""`python -m scripts.heads`: the EAGLE head of qwen2.5-coder-1.5b, in legs; see docs/heads.md.

First the target answers prompts and completes functions, then its states are captured on these
answers, on code and on prose, then the layer is trained. A stopped run goes on where it was: run it
again until it says that all is done, then with --ship.
"""

import argparse
from pathlib import Path

from paceline.cli.main import main

from .answers import write_answers
from .corpus import write_corpus

TARGET = "qwen2.5-coder-1.5b"
OPTIONS = (
    *("--draft-vocab", "16384", "--mlp-width", "1024", "--row-tokens", "512"),
    *("--rows-per-step", "8", "--steps", "300", "--bfloat16"),
)


def paceline(*arguments: str) -> None:
    """One command; raises SystemExit where it fails."""
    if code := main(list(arguments)):
        raise SystemExit(code)


def train(work: Path, leg_minutes: float | None) -> None:
    """Answers, states and steps, as far as they are missing."""
    answers = work / "answers.jsonl"
    write_answers(TARGET, answers)
    paths = write_corpus(answers, work)
    leg = [] if leg_minutes is None else ["--leg-minutes", str(leg_minutes)]
    paceline(
        *("train", "eagle", "--target", TARGET, "--data", str(paths["train"])),
        *("--held-out", str(paths["held_out"]), "--out", str(work / "eagle")),
        *OPTIONS,
        *leg,
    )


def run() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.heads", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/coder"))
    parser.add_argument("--out", type=Path, default=Path("heads") / TARGET / "eagle")
    parser.add_argument("--leg-minutes", type=float)
    parser.add_argument("--ship", action="store_true", help="write the head as int8 to --out")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.ship:
        made = str(options.work / "eagle")
        paceline("export", made, "-m", TARGET, "--format", "int8", "--out", str(options.out))
    else:
        train(options.work, options.leg_minutes)


if __name__ == "__main__":
    run()
