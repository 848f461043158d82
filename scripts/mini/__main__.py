"""`python -m scripts.mini all`: tokenizer, target, draft, export, measurements, card."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from . import corpus, train
from . import tokenizer as bpe
from .export import export
from .recipe import DRAFT_SCHEDULE, DRAFT_SHAPE, TARGET_SCHEDULE, TARGET_SHAPE
from .tokenizer import Ids

STAGES = ("target", "draft", "measure", "card", "all")


@dataclass(frozen=True)
class Prepared:
    """The tokenizer and both splits, as every stage needs them."""

    tokenizer: Tokenizer
    train_ids: Ids
    held_out_ids: Ids


def prepare(work: Path) -> Prepared:
    """Read the corpus; train the tokenizer unless the work folder has it."""
    documents = corpus.documents()
    if not (work / "tokenizer.json").exists():
        bpe.save(bpe.train(documents), work)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    return Prepared(
        tokenizer,
        bpe.encode(tokenizer, documents, held_out=False),
        bpe.encode(tokenizer, documents, held_out=True),
    )


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    run_training(options)
    if options.stage in ("measure", "all"):
        from .measure import measure  # noqa: PLC0415  (reads the exported pair)

        measure(options.out, options.work)
    if options.stage in ("card", "measure", "all"):
        from .card import write_card  # noqa: PLC0415

        write_card(options.out)


def run_training(options: argparse.Namespace) -> None:
    """The stages that change weights. The draft learns from the finished target."""
    if options.stage not in ("target", "draft", "all"):
        return
    ready = prepare(options.work)
    common: dict[str, Any] = {
        "work": options.work,
        "train_ids": ready.train_ids,
        "held_out_ids": ready.held_out_ids,
        "breaks": bpe.breaks(ready.tokenizer),
    }
    target = train.run(train.Task("target", TARGET_SHAPE, TARGET_SCHEDULE, **common))
    export(target, TARGET_SHAPE, ready.tokenizer, options.out / "target")
    if options.stage == "target":
        return
    draft = train.run(train.Task("draft", DRAFT_SHAPE, DRAFT_SCHEDULE, teacher=target, **common))
    export(draft, DRAFT_SHAPE, ready.tokenizer, options.out / "draft")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.mini", description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--work", type=Path, default=Path("build/mini"))
    parser.add_argument("--out", type=Path, default=Path("paceline/models/mini"))
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
