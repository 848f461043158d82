"""The block pool against a model of it: books balance, prefixes are found, content is never shared
by mistake.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paceline.cache import BlockPool, BlockTable
from paceline.errors import CacheError

BLOCK = 2
BLOCKS = 7


class Pool(RuleBasedStateMachine):
    """Requests come with tokens of two ids, so that prefixes collide often; each slot's content is
    tracked as the tuple of all tokens up to it, which is what its keys and values depend on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(BLOCKS, BLOCK)
        self.held: list[tuple[BlockTable, list[int]]] = []
        self.content: dict[int, tuple[int, ...]] = {}

    def write(self, table: BlockTable, tokens: Sequence[int], start: int) -> None:
        for position in range(start, len(tokens)):
            slot = int(table.slots(position, position + 1)[0])
            self.content[slot] = tuple(tokens[: position + 1])

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=9))
    def add(self, tokens: list[int]) -> None:
        table = BlockTable(self.pool)
        cached = table.adopt_prefix(tokens)
        assert cached < len(tokens)
        if table.missing(len(tokens)) > self.pool.free_count:
            table.release()
            return
        table.grow(len(tokens))
        self.write(table, tokens, cached)
        table.publish(tokens, len(tokens))
        self.held.append((table, tokens))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), token=st.integers(0, 1))
    def append(self, data: st.DataObject, token: int) -> None:
        table, tokens = data.draw(st.sampled_from(self.held))
        if table.missing(len(tokens) + 1) > self.pool.free_count:
            with pytest.raises(CacheError):
                table.grow(len(tokens) + 1)
            return
        tokens.append(token)
        table.grow(len(tokens))
        self.write(table, tokens, len(tokens) - 1)
        table.publish(tokens, len(tokens))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.held) - 1))
        self.held.pop(index)[0].release()

    @invariant()
    def balanced(self) -> None:
        self.pool.check()
        in_use = {block for table, _ in self.held for block in table.blocks}
        assert self.pool.used_count == len(in_use)

    @invariant()
    def every_slot_holds_its_own_prefix(self) -> None:
        for table, tokens in self.held:
            slots = table.slots(0, len(tokens)).tolist()
            assert [self.content[s] for s in slots] == [
                tuple(tokens[: n + 1]) for n in range(len(tokens))
            ]


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
