"""Thoughts pass through a stream whole, wherever a step cuts them."""

from __future__ import annotations

import pytest

from tests.live_server import Live

THOUGHT = "<think>Well, two and two.</think>\nFour."
ASKED = {
    "messages": [{"role": "user", "content": "2 + 2?"}],
    "structured_outputs": {"choice": [THOUGHT]},
    "temperature": 0,
}


@pytest.mark.parametrize("k", [0, 3, 8, 64])
def test_reasoning_boundary(server: Live, k: int) -> None:
    """vLLM 42781: of an event that held the end of a thought, what followed was lost."""
    events = server.events("/v1/chat/completions", **ASKED, speculation={"k": k})
    deltas = [e["choices"][0]["delta"].get("content") or "" for e in events[:-1] if e["choices"]]
    assert "".join(deltas) == THOUGHT
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    if k == 64:
        assert any("</think>" in delta and "Four" in delta for delta in deltas)
    whole = server.post("/v1/chat/completions", **ASKED, speculation={"k": k})
    assert whole["choices"][0]["message"]["content"] == THOUGHT
