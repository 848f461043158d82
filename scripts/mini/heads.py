"""`python -m scripts.mini.heads`: the heads that ship with mini, in legs of a few minutes.

Each is trained on what the target itself writes after the beginnings of its own training text, and
measured on what it writes after held-out beginnings. Run it again until it says that all is done.
"""

import argparse
import json
import shutil
from pathlib import Path

from paceline.cli.main import main

from .corpus import Document, documents

CHARACTERS = {"train": 450_000, "held_out": 18_000}
MOST_OF_A_FILE = 12_000
OPTIONS = {
    "medusa": ["--heads", "4", "--steps", "300"],
    "eagle": ["--steps", "300"],
    "eagle3": ["--steps", "300", "--ahead", "3", "--rows-per-step", "6"],
}
SHIPPED = ("config.json", "model.safetensors")


def write_texts(work: Path) -> dict[str, Path]:
    """The beginnings of the files of each split, as .jsonl."""
    found = documents()
    paths = {}
    for name, size in CHARACTERS.items():
        lines, total = [], 0
        for text in (beginning(doc) for doc in found if doc.held_out == (name == "held_out")):
            lines.append(json.dumps({"text": text}) + "\n")
            total += len(text)
            if total > size:
                break
        paths[name] = work / f"{name}.jsonl"
        paths[name].write_text("".join(lines), encoding="utf-8")
    return paths


def beginning(doc: Document) -> str:
    """Enough of a file."""
    return doc.text[:MOST_OF_A_FILE]


def train(kind: str, work: Path, leg_minutes: float) -> None:
    """One leg of one head."""
    paths = write_texts(work)
    arguments = [
        *("train", kind, "--data", str(paths["train"]), "--held-out", str(paths["held_out"])),
        *("--generate", "--temperature", "0.8", "--captured", str(work / "captured")),
        *("--out", str(work / kind), "--leg-minutes", str(leg_minutes)),
        *OPTIONS[kind],
    ]
    if code := main(arguments):
        raise SystemExit(code)


def ship(kind: str, work: Path, out: Path) -> None:
    """Copy what is served of a head into the package; an EAGLE head of either kind is `eagle`."""
    name = json.loads((work / kind / "config.json").read_text(encoding="utf-8"))["kind"]
    (out / name).mkdir(parents=True, exist_ok=True)
    for file in SHIPPED:
        shutil.copyfile(work / kind / file, out / name / file)


def run() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.mini.heads", description=__doc__)
    parser.add_argument("kind", choices=OPTIONS)
    parser.add_argument("--work", type=Path, default=Path("build/heads"))
    parser.add_argument("--out", type=Path, default=Path("paceline/models/mini/target/heads"))
    parser.add_argument("--leg-minutes", type=float, default=2.0)
    parser.add_argument("--ship", action="store_true", help="copy the head into the package")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.ship:
        ship(options.kind, options.work, options.out)
    else:
        train(options.kind, options.work, options.leg_minutes)


if __name__ == "__main__":
    run()
