"""Whole tiny decoders natively: close to the torch reference, and a row's bits are its path's."""

from __future__ import annotations

import random

import pytest
import torch

from paceline.kernels.batch import KVTensors
from paceline.kernels.library import features, use_path, use_threads
from paceline.kernels.native import NativeProgram
from tests.tiny_models import SPECS, Bench, Rows, random_tokens

HERE = features()
LENGTH = 41


class NativeBench(Bench):
    """A tiny model whose passes run natively."""

    def __post_init__(self):
        super().__post_init__()
        self.native = NativeProgram(self.program)

    def compute(self, batch, kv):
        found = self.native.run(batch, kv)
        return type(found)(found.logits.clone(), found.hidden)


@pytest.fixture(autouse=True)
def _restore_path_and_threads():
    yield
    use_path(HERE.path)
    use_threads(HERE.threads)


@pytest.fixture(params=SPECS, ids=str)
def bench(request):
    return NativeBench(SPECS[request.param], num_slots=4096)


def chunked(bench, tokens, size):
    """logits[len(tokens), V] of a text read so many tokens at a time."""
    slots = bench.slots(len(tokens))
    found = [
        bench.forward(Rows(tokens[start : start + size], start, slots)).logits
        for start in range(0, len(tokens), size)
    ]
    return torch.cat(found)


def test_logits_and_hidden_states_are_those_of_the_reference(bench):
    tokens, last = random_tokens(bench.spec, LENGTH), bench.spec.num_layers - 1
    reference = Bench(bench.spec, num_slots=64)
    work = Rows(tokens, 0, torch.arange(LENGTH))
    wanted = reference.forward(work, hidden_layers=(0, last))
    found = bench.forward(Rows(tokens, 0, bench.slots(LENGTH)), hidden_layers=(0, last))
    pairs = [(found.logits, wanted.logits)]
    pairs += [(found.hidden[layer], wanted.hidden[layer]) for layer in (0, last)]
    for ours, theirs in pairs:
        assert (ours - theirs).norm() <= 1e-5 * theirs.norm()


@pytest.mark.parametrize("path", HERE.paths)
def test_every_path_gives_the_same_bits(bench, path):
    tokens = random_tokens(bench.spec, LENGTH)
    use_path("portable")
    wanted = bench.alone(tokens)
    use_path(path)
    assert torch.equal(bench.alone(tokens), wanted)


@pytest.mark.parametrize("size", [1, 2, 5, 15, 16, 17, 40])
def test_prefill_chunks_and_decoding(bench, size):
    tokens = random_tokens(bench.spec, LENGTH)
    assert torch.equal(chunked(bench, tokens, size), bench.alone(tokens))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
def test_prefill_chunks_and_decoding_with_smaller_keys_and_values(bench, dtype):
    bench.kv = KVTensors.zeros(bench.kv.keys.shape, dtype)
    tokens = random_tokens(bench.spec, LENGTH)
    whole = bench.alone(tokens)
    for size in (1, 7, 33):
        assert torch.equal(chunked(bench, tokens, size), whole)
    reference = Bench(bench.spec, num_slots=64)
    wanted = reference.forward(Rows(tokens, 0, torch.arange(LENGTH))).logits
    assert (whole - wanted).norm() < 0.05 * wanted.norm()


def test_every_number_of_rows_and_threads():
    bench = NativeBench(SPECS["qkv biases"], num_slots=8192)
    tokens = random_tokens(bench.spec, 70)
    whole = bench.alone(tokens)
    for threads in (1, 2, 3):
        use_threads(threads)
        for count in range(1, 70):
            assert torch.equal(bench.alone(tokens[:count]), whole[:count]), count


def test_requests_in_any_order_beside_any_others(bench):
    use_threads(2)
    texts = [random_tokens(bench.spec, n, seed=n) for n in (1, 4, 9, 19, 30)]
    expected = [bench.alone(text) for text in texts]
    shuffler = random.Random(3)
    for _ in range(6):
        order = shuffler.sample(range(len(texts)), shuffler.randint(1, len(texts)))
        work = [Rows(texts[i], 0, bench.slots(len(texts[i]))) for i in order]
        logits = bench.forward(*work).logits.split([len(texts[i]) for i in order])
        for i, found in zip(order, logits, strict=True):
            assert torch.equal(found, expected[i])


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_beside_each_of_its_paths_alone(bench, seed):
    context = random_tokens(bench.spec, 13, seed=seed)
    shuffler = random.Random(seed)
    parents = (-1, *(shuffler.randint(-1, row) for row in range(11)))
    nodes = random_tokens(bench.spec, len(parents), seed=seed + 100)
    slots = bench.slots(len(context) + len(nodes))
    bench.forward(Rows(context, 0, slots))
    verified = bench.forward(Rows(nodes, len(context), slots, parents)).logits
    for row in range(len(nodes)):
        path, at = [nodes[row]], row
        while (at := parents[at]) >= 0:
            path.append(nodes[at])
        alone = bench.alone([*context, *reversed(path)])
        assert torch.equal(verified[row], alone[-1]), row


def test_keys_and_values_too(bench):
    tokens = random_tokens(bench.spec, 21)
    whole, parts = bench.slots(21), bench.slots(21)
    bench.forward(Rows(tokens, 0, whole))
    for start in range(0, 21, 4):
        bench.forward(Rows(tokens[start : start + 4], start, parts))
    for tensor in (bench.kv.keys, bench.kv.values):
        assert torch.equal(tensor[:, whole], tensor[:, parts])


def test_a_long_prompt_crosses_every_block(bench):
    """More rows than a sweep and more keys than a tile, beside the same text in two parts."""
    tokens = random_tokens(bench.spec, 203)
    assert torch.equal(chunked(bench, tokens, 150), bench.alone(tokens))


def test_int8_keys_and_values_are_the_reference_s(bench):
    """Scales to the bit, where the first layer's keys are; codes are whole numbers."""
    tokens, slots = random_tokens(bench.spec, 30), torch.arange(30)
    reference = Bench(bench.spec, num_slots=64)
    for each in (bench, reference):
        each.kv = KVTensors.zeros((*each.kv.keys.shape,), torch.int8)
        each.forward(Rows(tokens, 0, slots))
    for ours, theirs in zip(bench.kv.tensors[:2], reference.kv.tensors[:2], strict=True):
        assert (ours[:, :30].int() - theirs[:, :30].int()).abs().max() <= 1
        assert ours[:, :30].abs().amax(-1).eq(127).all()
    for ours, theirs in zip(bench.kv.tensors[2:], reference.kv.tensors[2:], strict=True):
        torch.testing.assert_close(ours[:, :30], theirs[:, :30], rtol=1e-3, atol=0)


@pytest.mark.parametrize("path", HERE.paths)
def test_every_path_gives_the_same_bits_with_int8(bench, path):
    bench.kv = KVTensors.zeros(bench.kv.keys.shape, torch.int8)
    tokens = random_tokens(bench.spec, LENGTH)
    use_path("portable")
    wanted = bench.alone(tokens)
    use_path(path)
    assert torch.equal(bench.alone(tokens), wanted)
