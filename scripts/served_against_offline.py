"""Throughput of `paceline serve` against the engine's own, by turns, on the same prompts.

    python -m scripts.served_against_offline --model qwen2.5-coder-1.5b --clients 16 --turns 5

Every turn runs all prompts at once, offline as one batch and then by as many streaming clients;
server and clients share the machine's cores. Prints each turn and the median of the ratios.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Annotated

import typer

from paceline.bench.http_client import Client
from paceline.bench.workloads import own_tasks
from paceline.engine import LLM
from paceline.types import SamplingParams, Speculation

CONTEXT = 1024


@contextmanager
def served(model: str, clients: int) -> Iterator[Client]:
    """A server of its own process, on a port that is free."""
    command = [sys.executable, "-m", "paceline", "serve", "--model", model, "--draft", "none"]
    command += ["--port", "0", "--max-concurrency", str(clients), "--max-model-len", str(CONTEXT)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        url = next(
            word for line in server.stderr for word in line.split() if word.startswith("http://")
        )
        yield Client(url.rstrip("/.,"))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


async def ask_all(client: Client, model: str, prompts: list[str], tokens: int) -> int:
    """Tokens that all prompts, asked at once, were answered with."""
    body = {"model": model, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    answers = await asyncio.gather(
        *(client.complete({**body, "prompt": prompt}) for prompt in prompts)
    )
    failed = [answer.error for answer in answers if answer.status != 200 or answer.error]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    return sum(answer.tokens for answer in answers)


def main(
    model: Annotated[str, typer.Option(help="Alias, folder or GGUF file.")],
    clients: Annotated[int, typer.Option(min=1)] = 16,
    tokens: Annotated[int, typer.Option(min=1, help="Of each request.")] = 128,
    turns: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Compare the two by turns."""
    llm = LLM(model, max_model_len=CONTEXT, max_num_requests=clients)
    texts = [task.prompt for task in own_tasks()]
    prompts = [f"{n}. {texts[n % len(texts)]}" for n in range(clients)]
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    ratios = []
    with served(model, clients) as client:
        for turn in range(turns + 1):
            began = time.perf_counter()
            outputs = llm.generate(prompts, params, speculation=Speculation(k=0))
            offline = sum(len(output.token_ids) for output in outputs)
            between = time.perf_counter()
            online = asyncio.run(ask_all(client, model, prompts, tokens))
            ended = time.perf_counter()
            speeds = offline / (between - began), online / (ended - between)
            if turn:  # the first warms up
                ratios.append(speeds[1] / speeds[0])
                print(f"offline {speeds[0]:.1f}, served {speeds[1]:.1f} tokens/s")
    print(f"served / offline: {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    typer.run(main)
