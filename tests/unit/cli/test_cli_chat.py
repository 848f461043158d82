"""`paceline chat`: lines in, replies out, history kept, interrupts survived."""

from __future__ import annotations

import builtins

import pytest

from paceline.cli import chat as chat_module
from paceline.types import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=5)


@pytest.fixture
def talk(loaded, templated, monkeypatch):
    """talk(*lines): the command with these typed; an exception among them is raised instead."""

    def run(*lines, args=()):
        typed = iter([*lines, EOFError()])

        def read(prompt: str) -> str:
            line = next(typed)
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", read)
        return loaded("chat", "--max-tokens", "5", *args)

    return run


def reply(llm, prompt: str) -> str:
    return llm.generate(prompt, GREEDY)[0].text


def shown(*replies: str) -> str:
    return "".join(text.removesuffix("\n") + "\n" for text in replies)


def test_each_line_is_answered_with_all_before_it(talk, mini):
    first = reply(mini, "# user: import os\n")
    second = reply(mini, f"# user: import os\n# assistant: {first}\n# user: def f():\n")
    assert talk("import os", "  ", "def f():") == (0, shown(first, second), "")


def test_reset_forgets(talk, mini):
    first, second = reply(mini, "# user: import os\n"), reply(mini, "# user: def f():\n")
    assert talk("import os", "/reset", "def f():").out == shown(first, second)


def test_quit_ends(talk, mini):
    assert talk("import os", "/quit", "def f():").out == shown(reply(mini, "# user: import os\n"))


def test_interrupt_at_the_prompt_leaves(talk):
    assert talk(KeyboardInterrupt()) == (130, "", "paceline: interrupted\n")


def test_interrupt_in_a_reply_drops_that_turn(talk, mini, monkeypatch):
    calls = []

    def interrupted(llm, ids, params, color):
        calls.append(ids)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return print_stream(llm, ids, params, color)

    print_stream = chat_module.print_stream
    monkeypatch.setattr(chat_module, "print_stream", interrupted)
    ran = talk("import os", "def f():")
    assert ran == (0, shown(reply(mini, "# user: def f():\n")), "")
    assert [mini.tokenizer.decode(ids) for ids in calls] == [
        "# user: import os\n",
        "# user: def f():\n",
    ]


def test_stats_follow_each_reply(talk):
    assert talk("a", "b", args=["--stats"]).err.count("peak memory") == 2


def test_a_rendered_conversation_gets_no_second_beginning(talk, mini, loaded, bos, tmp_path):
    """The template has written the special tokens; a prompt that is sent raw gets them."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "def f():"}\n{"turns": ["def f():", "x"]}\n')
    talk("import os")
    loaded("generate", "--max-tokens", "1", "import os")
    loaded("generate", "--max-tokens", "1", "--prompts", str(prompts))
    mini.chat([{"role": "user", "content": "import os"}], GREEDY)
    assert len(bos) == 6
    assert not any(bos)
    loaded("generate", "--max-tokens", "1", "--raw", "import os")
    mini.generate("import os", GREEDY)
    assert bos[6:] == [True, True]
