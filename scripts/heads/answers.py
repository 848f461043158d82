"""Self-distillation: what the target answers to the prompts, kept line by line as it is made."""

import json
from pathlib import Path

from paceline.engine import LLM
from paceline.types import SamplingParams

from .corpus import openings
from .prompts import prompts

BATCH = 32
OPENINGS = 64
ROUNDS = 4
"""Each prompt is answered so often, with another seed, and other functions are completed."""
TOKENS = 112
TEMPERATURE = 0.8


def write_answers(target: str, path: Path) -> None:
    """Answer what is not answered yet, a batch at a time; the same prompt gets the same text."""
    done = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
    if done == ROUNDS * (len(prompts()) + OPENINGS):
        return
    llm = LLM(target, max_num_requests=BATCH, max_model_len=1024)
    chats = [llm.render([{"role": "user", "content": text}]) for text in prompts()]
    functions = openings(ROUNDS * OPENINGS)
    asked = list[str]()
    for first in range(0, len(functions), OPENINGS):
        asked += mixed(chats, functions[first : first + OPENINGS])
    for start in range(done, len(asked), BATCH):
        texts = asked[start : start + BATCH]
        params = [
            SamplingParams(temperature=TEMPERATURE, seed=start + i, max_tokens=TOKENS)
            for i in range(len(texts))
        ]
        ids = [llm.encode(text, rendered=True) for text in texts]
        lines = [
            json.dumps({"prompt": text, "completion": output.text}) + "\n"
            for text, output in zip(texts, llm.generate(ids, params), strict=True)
        ]
        with path.open("a", encoding="utf-8") as file:
            file.writelines(lines)
        print(f"{path}: {start + len(texts)} of {len(asked)}", flush=True)


def mixed(many: list[str], few: list[str]) -> list[str]:
    """Both, evenly spread, so that every batch has some of each."""
    step = -(-len(many) // max(1, len(few)))
    found: list[str] = []
    for i, text in enumerate(few):
        found += [*many[i * step : (i + 1) * step], text]
    return [*found, *many[len(few) * step :]]
