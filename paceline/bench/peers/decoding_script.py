"""Run by another environment's Python: loads a model, then continues what each line of stdin asks.

`decoding_script.py ENGINE SETTINGS`, both of them strings, the second JSON. It prints a line when
the model is loaded, and for each line {"ids", "tokens"} one {"ids", "decode_ms"}: the time from the
first token to the last. It imports nothing of Paceline.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Continue = Callable[[Sequence[int], int], "Clock"]


class Clock:
    """Tokens as they come, and when."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._times: list[float] = []

    def hear(self, tokens: Sequence[int]) -> None:
        """Some more tokens."""
        self.ids += tokens
        self._times.append(time.perf_counter())

    @property
    def decode_ms(self) -> float:
        """From the first token to the last."""
        return 1e3 * (self._times[-1] - self._times[0])


def openvino(settings: Settings) -> Continue:
    """OpenVINO GenAI: plain, by prompt lookup, or with a draft model."""
    import numpy as np  # noqa: PLC0415
    import openvino_genai as genai  # noqa: PLC0415
    from openvino import Tensor  # noqa: PLC0415

    more: Settings = {"INFERENCE_NUM_THREADS": settings["threads"]}
    if settings["draft"]:
        more["draft_model"] = genai.draft_model(settings["draft"], "CPU")
    if settings.get("lookup"):
        more["prompt_lookup"] = True
    pipeline = genai.LLMPipeline(settings["model"], "CPU", **more)

    class Streamer(genai.StreamerBase):  # type: ignore[misc]
        def __init__(self, clock: Clock) -> None:
            super().__init__()
            self.clock = clock

        def write(self, token: int | list[int]) -> Any:
            self.clock.hear(token if isinstance(token, list) else [token])
            return genai.StreamingStatus.RUNNING

        def end(self) -> None:
            pass

    def decode(ids: Sequence[int], tokens: int) -> Clock:
        config, clock = genai.GenerationConfig(), Clock()
        config.max_new_tokens, config.ignore_eos = tokens, True
        config.do_sample = settings["temperature"] > 0
        if config.do_sample:
            config.temperature, config.rng_seed = settings["temperature"], settings["seed"]
        if settings.get("lookup"):
            config.num_assistant_tokens, config.max_ngram_size = settings["lookup"], 3
        elif settings["draft"]:
            config.num_assistant_tokens = settings["length"]
        pipeline.generate(Tensor(np.array([ids], dtype=np.int64)), config, Streamer(clock))
        return clock

    return decode


def transformers(settings: Settings) -> Continue:
    """Hugging Face: plain, by prompt lookup, or with an assistant."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, set_seed  # noqa: PLC0415

    torch.set_num_threads(settings["threads"])

    def load(path: Path) -> Any:
        file = {} if path.is_dir() else {"gguf_file": path.name}
        folder = path if path.is_dir() else path.parent
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **file)

    class Streamer:
        def __init__(self, clock: Clock) -> None:
            self.clock, self.prompt_is_told = clock, False

        def put(self, tokens: Any) -> None:
            if self.prompt_is_told:
                self.clock.hear(tokens.flatten().tolist())
            self.prompt_is_told = True

        def end(self) -> None:
            pass

    model = load(Path(settings["model"]))
    more: Settings = {}
    if settings.get("lookup"):
        more["prompt_lookup_num_tokens"] = settings["lookup"]
    elif settings["draft"]:
        more["assistant_model"] = load(Path(settings["draft"]))
    if settings["temperature"] > 0:
        own = {"temperature": settings["temperature"], "top_k": 0, "top_p": 1.0}
        more |= {"do_sample": True, **own}
    else:
        more |= {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}

    def decode(ids: Sequence[int], tokens: int) -> Clock:
        set_seed(settings["seed"])
        asked, clock = torch.tensor([list(ids)]), Clock()
        lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens}
        mask = torch.ones_like(asked)
        model.generate(asked, attention_mask=mask, streamer=Streamer(clock), **lengths, **more)
        return clock

    return decode


ENGINES: dict[str, Callable[[Settings], Continue]] = {
    "openvino": openvino,
    "transformers": transformers,
}


def main(engine: str, settings: Settings) -> None:
    """Serve stdin; what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    decode = ENGINES[engine](settings)
    print(json.dumps("ready"), file=out)
    for line in sys.stdin:
        asked = json.loads(line)
        clock = decode(asked["ids"], asked["tokens"])
        print(json.dumps({"ids": clock.ids, "decode_ms": clock.decode_ms}), file=out)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
