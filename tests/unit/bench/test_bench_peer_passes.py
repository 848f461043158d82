"""A peer's passes: what llama-bench prints, and two engines by turns."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from paceline.bench.peers.passes import (
    Comparison,
    Workload,
    compare,
    find_llama_cpp,
    median_samples,
)
from paceline.errors import ConfigError

WORK = Workload(model=Path("some.gguf"), rows=(1, 5), context=64, threads=2)
PRINTED = [
    {"n_prompt": 5, "samples_ns": [9_000_000, 8_000_000]},
    {"n_prompt": 1, "samples_ns": [2_500_000]},
]


def program(tmp_path, body):
    """A llama-bench that runs this Python."""
    path = tmp_path / "llama-bench"
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_is_asked_for_the_same_rows_context_and_threads(tmp_path):
    asked = tmp_path / "asked"
    body = (
        f"open({str(asked)!r}, 'w').write(' '.join(sys.argv[1:]))\nprint({json.dumps(PRINTED)!r})"
    )
    assert find_llama_cpp(WORK, program(tmp_path, body))() == [2.5, 8.5]
    assert asked.read_text() == "-m some.gguf -t 2 -n 0 -d 64 -r 3 -p 1,5 -o json"


def test_a_program_that_fails_is_quoted(tmp_path):
    passes = find_llama_cpp(WORK, program(tmp_path, "sys.exit('first line\\nno such model')"))
    with pytest.raises(ConfigError, match="failed with code 1: no such model"):
        passes()


def test_a_program_that_is_not_there():
    with pytest.raises(ConfigError, match="no-such-bench"):
        find_llama_cpp(WORK, "no-such-bench")


@pytest.mark.parametrize(
    "printed",
    ["", "{}", "[]", '[{"n_prompt": 1, "samples_ns": []}]', pytest.param("[" * 200_000, id="deep")],
)
def test_json_of_another_kind(printed):
    with pytest.raises(ConfigError, match="newer"):
        median_samples(printed, (1,))


def test_engines_take_turns_and_the_median_turn_counts():
    turns = []

    def engine(name, *passes):
        results = iter(passes)
        return lambda: turns.append(name) or next(results)

    found = compare(
        engine("o", [2, 9], [3, 6], [1, 5]), engine("p", [8, 8], [4, 9], [3, 1]), (1, 5), rounds=3
    )
    assert turns == ["o", "p"] * 3
    assert found == [Comparison(rows=1, ms=2, peer_ms=4), Comparison(rows=5, ms=6, peer_ms=8)]
    assert found[1].as_record() == {"rows": 5, "ms": 6, "peer_ms": 8, "ratio": 0.75}
