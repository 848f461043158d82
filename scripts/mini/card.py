"""The model card, from metrics.json and nothing else."""

import json
from pathlib import Path
from typing import Any

CARD = """\
# mini: the embedded default pair

A target and a draft of the llama family, trained from scratch by this project so that Paceline
works out of the box, without a download. They complete Python source; they know nothing else.

| | target | draft |
|---|---|---|
{table}

## Data

The pure-Python files of the {source}, licence {licence}. Test suites,
`encodings`, `pydoc_data`, generated tables and exact duplicates are left out. The file's name
decides its split: {train_files} files ({train_mb:.1f} MB) train, {held_out_files} files
({held_out_mb:.2f} MB, {held_out_tokens} tokens) are held out. So few files make the held-out
figures rough: another split would move them by a tenth of a nat or more.
The tokenizer, a byte-level BPE of 4096 ids, is trained on the training files alone.

The Python Software Foundation License covers the text that was read:
Copyright (c) 2001-2023 Python Software Foundation. All rights reserved. The weights and the
tokenizer are this project's own and carry its licence.

## Training

`python -m scripts.mini all` trains such a pair. It resumes after a kill and sees its data in an
order fixed by the seed. The shipped weights come from a run that was lengthened while it ran, so
a fresh run lands close to them, not on the same bits. fp32 on two cores of an AVX2-class x86
server CPU shared with much other work, hence the minutes. Muon for the matrices inside the
layers, AdamW for the embedding and the gains; linear
warm-up, then {cycles} cycle(s) of cosine with a linear cooldown. Rows are 256 tokens long, and
1024, the whole context, at the end of each cycle. The draft minimises {plain:.0%} cross-entropy
on the data and {distil:.0%} KL(target || draft) on the same positions; its embedding starts as
the target's, projected on its leading principal directions.

The tokenizer keeps a line break and the next line's indentation in one token. So that a prompt
may end with a bare line break, late training cuts the indentation off a quarter of them.

## The pair

Teacher forcing, on rows of {row_tokens} held-out tokens, and on text the target itself writes at
temperature 1 after held-out prompts:

| | alpha at temperature 1 | greedy agreement |
|---|---|---|
| held-out text | {held[alpha]:.3f} | {held[greedy_agreement]:.3f} |
| the target's own samples | {own[alpha]:.3f} | {own[greedy_agreement]:.3f} |

alpha is the mean over positions of sum_v min(p, q): the chance that one drafted token is accepted.
Greedy agreement is how often both name the same most likely token.

## Limits

The target saw {tokens_m:.1f} million tokens, which is very little. What it
writes has the look of Python, names things plausibly and then drifts or repeats itself; it does
not compute what the prompt asks for, and its prose is a docstring's prose. The context ends at
1024 tokens. Use it to try, test and measure the engine, not to write software.

## Samples

{samples}
"""


def write_card(out: Path) -> None:
    """Write README.md beside metrics.json."""
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    data, distil = metrics["data"], metrics["draft"]["schedule"]["distil"]
    text = CARD.format(
        table=_table(metrics["target"], metrics["draft"]),
        source=data["source"],
        licence=data["licence"],
        train_files=data["train_files"],
        train_mb=data["train_bytes"] / 1e6,
        held_out_files=data["held_out_files"],
        held_out_mb=data["held_out_bytes"] / 1e6,
        held_out_tokens=metrics["held_out_tokens"],
        row_tokens=metrics["row_tokens"],
        cycles=len(metrics["target"]["schedule"]["cycles"]),
        plain=1 - distil,
        distil=distil,
        held=metrics["pair"]["held_out_text"],
        own=metrics["pair"]["own_samples"],
        tokens_m=metrics["target"]["train_tokens"] / 1e6,
        samples="\n\n".join(_sample(sample) for sample in metrics["samples"]),
    )
    (out / "README.md").write_text(text, encoding="utf-8")


def _table(target: dict[str, Any], draft: dict[str, Any]) -> str:
    rows = [
        ("parameters", "{m[parameters]:,}"),
        ("width, layers", "{m[shape][hidden]}, {m[shape][layers]}"),
        (
            "query heads, kv heads, head size",
            "{m[shape][heads]}, {m[shape][kv_heads]}, {m[shape][head_dim]}",
        ),
        ("mlp width", "{m[shape][mlp]}"),
        ("steps", "{m[steps]}"),
        ("tokens seen", "{m[train_tokens]:,}"),
        ("minutes of training", "{m[train_minutes]:.0f}"),
        ("held-out loss, nats per token", "{m[held_out_loss]:.3f}"),
        ("held-out perplexity", "{m[held_out_perplexity]:.1f}"),
    ]
    return "\n".join(
        f"| {label} | {form.format(m=target)} | {form.format(m=draft)} |" for label, form in rows
    )


def _sample(sample: dict[str, Any]) -> str:
    lines = "\n".join(f"    {line}".rstrip() for line in sample["text"].splitlines())
    return f"Prompt `{sample['prompt']!r}`, temperature {sample['temperature']}:\n\n{lines}"
