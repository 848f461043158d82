"""Other engines' configuration: parsed back, not compared as text alone."""

from __future__ import annotations

import json
import shlex

import pytest

from paceline.errors import ConfigError, UnknownNameError
from paceline.plan.emit import ENGINES, Kind, Setup, emit, steps_of
from paceline.plan.lengths import Length

MODEL = Setup(
    target="org/big", kind=Kind.MODEL, draft="org/small", lengths=((1, 5), (9, 2), (33, 0))
)
LOOKUP = Setup(target="a b.gguf", kind=Kind.LOOKUP, lengths=((1, 8),))
OFF = Setup(target="org/big", kind=Kind.LOOKUP, lengths=((1, 0),))


def options(text: str) -> dict[str, str]:
    words = shlex.split(text)
    return {w: words[i + 1] for i, w in enumerate(words[:-1]) if w.startswith("-") and w != "-m"}


def test_vllm():
    config = json.loads(options(emit("vllm", MODEL))["--speculative-config"])
    assert config == {
        "method": "draft_model",
        "model": "org/small",
        "num_speculative_tokens": 5,
        "num_speculative_tokens_per_batch_size": [[1, 8, 5], [9, 32, 2], [33, 512, 0]],
    }
    lookup = json.loads(options(emit("vllm", LOOKUP))["--speculative-config"])
    assert lookup == {"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 8}
    assert shlex.split(emit("vllm", LOOKUP))[2] == "a b.gguf"


def test_a_plan_beyond_the_table_lengthens_it():
    setup = Setup(target="a", kind=Kind.LOOKUP, lengths=((1, 4), (601, 2)))
    assert setup.ranges == [[1, 600, 4], [601, 601, 2]]


def test_sglang():
    assert options(emit("sglang", MODEL)) == {
        "--model-path": "org/big",
        "--speculative-algorithm": "STANDALONE",
        "--speculative-draft-model-path": "org/small",
        "--speculative-num-steps": "5",
        "--speculative-eagle-topk": "1",
        "--speculative-num-draft-tokens": "6",
        "--max-running-requests": "32",
    }
    assert options(emit("sglang", LOOKUP))["--speculative-algorithm"] == "NGRAM"


def test_tensorrt_llm():
    assert emit("tensorrt-llm", MODEL).splitlines()[1:] == [
        "speculative_config:",
        "  decoding_type: DraftTarget",
        "  max_draft_len: 5",
        '  speculative_model: "org/small"',
        "  max_concurrency: 32",
    ]
    assert "decoding_type: NGram" in emit("tensorrt-llm", LOOKUP)


def test_llama_cpp():
    found = options(emit("llama.cpp", MODEL))
    assert (found["--model-draft"], found["--spec-draft-n-max"]) == ("org/small", "5")
    assert (found["--spec-type"], found["--parallel"]) == ("draft-simple", "32")
    lookup = options(emit("llama.cpp", LOOKUP))
    assert (lookup["--spec-type"], lookup["--spec-ngram-mod-n-max"]) == ("ngram-mod", "8")


@pytest.mark.parametrize("engine", ENGINES)
def test_no_drafts_at_all(engine):
    text = emit(engine, OFF)
    assert "org/big" in text
    assert "spec" not in text


def test_an_unknown_engine_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'vllm'"):
        emit("vlm", MODEL)


def test_setups_are_checked():
    with pytest.raises(ConfigError, match="--draft"):
        Setup(target="t", kind=Kind.MODEL, lengths=((1, 2),))
    with pytest.raises(ConfigError, match="from batch size 1"):
        Setup(target="t", kind=Kind.LOOKUP, lengths=((4, 2),))


def test_steps():
    lengths = [Length(batch, k, 1, 1, 1) for batch, k in ((1, 4), (2, 4), (4, 2), (8, 0))]
    assert steps_of(lengths) == ((1, 4), (3, 2), (5, 0))
    with pytest.raises(ConfigError, match="--batch"):
        steps_of([])
