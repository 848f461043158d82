"""A long text is encoded beside other threads, not instead of them."""

from __future__ import annotations

import threading


def test_other_threads_run_while_a_long_text_is_read(mini):
    """One oversized prompt held up every stream of a server for seconds."""
    begun, done, text = [], [], "word " * 20_000

    def read():
        begun.append(True)
        mini.tokenizer.encode(text)
        done.append(True)

    thread = threading.Thread(target=read)
    thread.start()
    turns = 0
    while not begun:
        pass
    while not done:
        turns += 1
    thread.join()
    assert turns > 1000
