from __future__ import annotations

import pytest

from paceline.cache import BlockPool, BlockTable
from paceline.errors import CacheError, ConfigError


def filled(pool: BlockPool, tokens: list[int]) -> BlockTable:
    table = BlockTable(pool)
    table.adopt_prefix(tokens)
    table.grow(len(tokens))
    table.publish(tokens, len(tokens))
    return table


def test_a_prefix_is_found_up_to_its_last_full_block_but_never_the_last_token() -> None:
    pool = BlockPool(8, 4)
    first = filled(pool, list(range(12)))
    assert BlockTable(pool).adopt_prefix([*range(8), 99]) == 8
    assert BlockTable(pool).adopt_prefix(list(range(12))) == 8
    assert BlockTable(pool).adopt_prefix([0, 1, 2, 99, 4]) == 0
    assert first.slots(0, 12).tolist() == list(range(12))


def test_freed_blocks_stay_findable_until_they_are_handed_out_again() -> None:
    pool = BlockPool(3, 2)
    filled(pool, [1, 2, 3, 4, 5]).release()
    again = BlockTable(pool)
    assert again.adopt_prefix([1, 2, 3, 4, 5]) == 4
    again.release()
    taken = pool.allocate(3)
    assert BlockTable(pool).adopt_prefix([1, 2, 3, 4, 5]) == 0
    pool.release(taken)
    pool.check_idle()


def test_the_deepest_block_of_a_prefix_is_evicted_first() -> None:
    pool = BlockPool(4, 2)
    filled(pool, [1, 2, 3, 4, 5]).release()
    pool.release(pool.allocate(3))
    assert BlockTable(pool).adopt_prefix([1, 2, 3, 4, 5]) == 2


def test_a_shared_block_is_freed_with_its_last_reference() -> None:
    pool = BlockPool(4, 2)
    one, two = filled(pool, [1, 2, 3]), filled(pool, [1, 2, 4])
    assert one.blocks[0] == two.blocks[0]
    assert pool.used_count == 3
    one.release()
    assert pool.used_count == 2
    two.release()
    pool.check_idle()


def test_generation_rises_only_when_a_block_is_handed_out() -> None:
    pool = BlockPool(1, 2)
    (block,) = pool.allocate(1)
    before = pool.generation[block]
    pool.publish(block, b"digest")
    pool.release([block])
    assert pool.generation[block] == before
    pool.allocate(1)
    assert pool.generation[block] == before + 1


def test_without_prefix_caching_nothing_is_found() -> None:
    pool = BlockPool(4, 2, prefix_caching=False)
    filled(pool, [1, 2, 3]).release()
    assert BlockTable(pool).adopt_prefix([1, 2, 3]) == 0


def test_wrong_books_raise() -> None:
    pool = BlockPool(2, 2)
    with pytest.raises(CacheError, match="3 blocks are wanted, 2 are free"):
        pool.allocate(3)
    with pytest.raises(CacheError, match="Block 1 is released"):
        pool.release([1])
    pool.allocate(1)
    with pytest.raises(CacheError, match="1 blocks are still held"):
        pool.check_idle()
    with pytest.raises(ConfigError, match="at least one block"):
        BlockPool(0, 2)
