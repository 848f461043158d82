"""Whole tiny decoders: a row's logits are a function of its own path, to the bit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from paceline.bench.rows import chain
from paceline.kernels.attention import attend_rows
from paceline.kernels.batch import Batch, KVTensors
from paceline.kernels.ops import LOGITS, Attend, LogitRows
from paceline.kernels.reference import KERNELS, Pass
from paceline.kernels.rows import LANES, ROW_TILE
from tests.tiny_models import SPECS, Bench, Rows, random_tokens

LENGTH = 140
"""Tokens: more than two blocks of keys."""


@pytest.fixture(params=SPECS, ids=str)
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(SPECS[request.param], num_slots=4096)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def chunked(bench: Bench, tokens: list[int], size: int) -> Tensor:
    """logits[len(tokens), V] of a text read so many tokens at a time."""
    slots = bench.slots(len(tokens))
    found = [
        bench.forward(Rows(tokens[start : start + size], start, slots)).logits
        for start in range(0, len(tokens), size)
    ]
    return torch.cat(found)


@pytest.mark.parametrize("size", [5, 15, 16, 17, 63, 64, 65, 100])
def test_chunks_of_a_prompt(bench: Bench, size: int) -> None:
    tokens = random_tokens(bench.spec, LENGTH)
    assert torch.equal(chunked(bench, tokens, size), bench.alone(tokens))


def test_decoding_one_by_one(bench: Bench) -> None:
    tokens = random_tokens(bench.spec, 70)
    assert torch.equal(chunked(bench, tokens, 1), bench.alone(tokens))


def test_every_number_of_rows() -> None:
    bench = Bench(SPECS["qkv biases"], num_slots=2048)
    tokens = random_tokens(bench.spec, 40)
    whole = bench.alone(tokens)
    for count in range(1, 40):
        assert torch.equal(bench.alone(tokens[:count]), whole[:count]), count


def test_requests_in_any_order_beside_any_others(bench: Bench) -> None:
    texts = [random_tokens(bench.spec, n, seed=n) for n in (1, 4, 9, 30, 67)]
    expected = [bench.alone(text) for text in texts]
    shuffler = random.Random(3)
    for _ in range(6):
        order = shuffler.sample(range(len(texts)), shuffler.randint(1, len(texts)))
        work = [Rows(texts[i], 0, bench.slots(len(texts[i]))) for i in order]
        logits = bench.forward(*work).logits.split([len(texts[i]) for i in order])
        for i, found in zip(order, logits, strict=True):
            assert torch.equal(found, expected[i])


def test_a_decoding_request_beside_a_prefilling_one(bench: Bench) -> None:
    tokens, other = random_tokens(bench.spec, 20), random_tokens(bench.spec, 23, seed=1)
    expected = bench.alone(tokens)[-1]
    slots = bench.slots(20)
    bench.forward(Rows(tokens[:19], 0, slots))
    work = [Rows(other, 0, bench.slots(23)), Rows(tokens[19:], 19, slots)]
    assert torch.equal(bench.forward(*work).logits[-1], expected)


@pytest.mark.parametrize("context_tokens", [0, 13, 60, 64])
def test_a_tree_beside_each_of_its_paths_alone(bench: Bench, context_tokens: int) -> None:
    seed = context_tokens
    context = random_tokens(bench.spec, context_tokens, seed=seed)
    shuffler = random.Random(seed)
    parents = (-1, *(shuffler.randint(0, row) for row in range(11)))
    nodes = random_tokens(bench.spec, len(parents), seed=seed + 100)
    slots = bench.slots(len(context) + len(nodes))
    if context:
        bench.forward(Rows(context, 0, slots))
    verified = bench.forward(Rows(nodes, len(context), slots, parents)).logits
    for row in range(len(nodes)):
        path, at = [nodes[row]], row
        while (at := parents[at]) >= 0:
            path.append(nodes[at])
        alone = bench.alone([*context, *reversed(path)])
        assert torch.equal(verified[row], alone[-1]), row


def test_a_tree_of_a_prompt_and_drafts_in_one_segment(bench: Bench) -> None:
    tokens = random_tokens(bench.spec, 9)
    parents = (-1, 0, 1, 2, 3, 3, 4, 5, 5)
    verified = bench.forward(Rows(tokens, 0, bench.slots(9), parents)).logits
    alone = bench.alone([*tokens[:4], tokens[5], tokens[8]])
    assert torch.equal(verified[[0, 1, 2, 3, 5, 8]], alone)


def test_the_number_of_threads(bench: Bench) -> None:
    tokens = random_tokens(bench.spec, 70)
    expected = bench.alone(tokens)
    torch.set_num_threads(2)
    assert torch.equal(bench.alone(tokens), expected)


LONG = 3_000
"""Keys of which the sums of all blocks are more numbers than torch leaves to one thread."""
PARALLEL_FROM = 32_768


def attend(head_size: int, window: int | None = None) -> Attend:
    """Six heads over two."""
    return Attend(
        layer=0, query="q", key="k", value="v", out="o", num_heads=6, num_kv_heads=2,
        head_size=head_size, scale=head_size**-0.5, window=window, soft_cap=3.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "head_size"), [(torch.float32, 64), (torch.float32, 80), (torch.bfloat16, 64)]
)
def test_attention_to_a_long_context_on_any_number_of_threads(
    dtype: torch.dtype, head_size: int
) -> None:
    assert LONG // LANES * ROW_TILE * head_size > PARALLEL_FROM
    query, op = torch.randn(9, 6, head_size).to(dtype), attend(head_size)
    keys, values = (torch.randn(LONG, 2, head_size).to(dtype) for _ in "kv")
    lengths = torch.arange(LONG - 8, LONG + 1)
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(attend_rows(op, query, keys, values, lengths))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("window", [None, 50, 1_700])
@pytest.mark.parametrize("count", [1, 3])
def test_a_row_attends_alike_whatever_stands_behind_its_path(
    count: int, window: int | None
) -> None:
    """Blocks are added in one order: those behind a row's path change no bit of it."""
    torch.set_num_threads(count)
    query, (keys, values) = torch.randn(4, 6, 64), torch.randn(2, LONG, 2, 64)
    op = attend(64, window=window)
    lengths = torch.tensor([40, 1_000, LONG - LANES - 1, LONG])
    together = attend_rows(op, query, keys, values, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = attend_rows(op, query[row, None], keys[:length], values[:length])[0]
        assert torch.equal(together[row], alone), length


def test_keys_and_values_too(bench: Bench) -> None:
    tokens = random_tokens(bench.spec, 21)
    whole, pieces = bench.slots(21), bench.slots(21)
    bench.forward(Rows(tokens, 0, whole))
    for start in range(0, 21, 4):
        bench.forward(Rows(tokens[start : start + 4], start, pieces))
    for tensor in (bench.kv.keys, bench.kv.values):
        assert torch.equal(tensor[:, whole], tensor[:, pieces])


def test_hidden_states_of_the_layers_asked_for(bench: Bench) -> None:
    tokens, last = random_tokens(bench.spec, 20), bench.spec.num_layers - 1
    slots = bench.slots(20)
    whole = bench.forward(Rows(tokens, 0, slots), hidden_layers=(0, last)).hidden
    assert set(whole) == {0, last}
    assert whole[0].shape == (20, bench.spec.hidden_size)
    bench.forward(Rows(tokens[:18], 0, slots))
    tail = bench.forward(Rows(tokens[18:], 18, slots), hidden_layers=(last,)).hidden
    assert set(tail) == {last}
    assert torch.equal(tail[last], whole[last][18:])
    logits = bench.forward(Rows(tokens[18:], 18, slots)).logits
    ops = bench.program.ops
    head = ops[1 + next(i for i, op in enumerate(ops) if isinstance(op, LogitRows)) :]
    nothing = [torch.empty(0)] * 4
    state = Pass(Batch(*nothing, ()), bench.kv, *nothing, (), {"x": tail[last]})
    for op in head:
        KERNELS[type(op)](op, state)
    torch.testing.assert_close(state.registers[LOGITS], logits)


def test_a_pass_may_want_no_logits(bench: Bench) -> None:
    found = bench.compute(chain(0, 9, logit_rows=0), bench.kv).logits
    assert found.shape == (0, bench.spec.vocab_size)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8])
def test_chunks_with_smaller_keys_and_values(bench: Bench, dtype: torch.dtype) -> None:
    bench.kv = KVTensors.zeros(bench.kv.keys.shape, dtype)
    tokens = random_tokens(bench.spec, 70)
    whole = bench.alone(tokens)
    assert torch.equal(chunked(bench, tokens, 9), whole)
    wanted = Bench(bench.spec).alone(tokens)
    assert 0 < (whole - wanted).norm() < 0.05 * wanted.norm()


def test_int8_keeps_each_number_within_half_a_step() -> None:
    kv, slots = KVTensors.zeros((1, 9, 2, 16), torch.int8), torch.tensor([4, 2, 7])
    key, value = torch.randn(3, 2, 16), torch.zeros(3, 2, 16)
    kv.write(0, slots, key, value)
    found, zeros = kv.read(0, slots, torch.float32)
    step = key.abs().amax(-1, keepdim=True) / 127
    assert ((found - key).abs() <= step * 0.5001).all()
    assert not zeros.any()
