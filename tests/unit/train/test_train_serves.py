"""What is trained is what is served: the layer in training and the layer at work say the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from paceline.drafters.checkpoint import open_head
from paceline.drafters.eagle import LayerRunner, load_layer
from paceline.drafters.feature_cache import Piece
from paceline.drafters.medusa import MedusaHeads
from paceline.drafters.parts import linear
from paceline.engine import LLM
from paceline.models import LoadedModel
from paceline.models.safetensors_file import read_safetensors
from paceline.runtime import Rows, Runner, pack
from paceline.train.eagle import EagleObjective
from paceline.train.eagle_shape import shape_of
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS
from tests.contracts.test_drafters import listen
from tests.unit.train.conftest import Train

TOKENS = [5, 300, 17, 2000, 44, 1234, 9, 77, 600, 31, 8, 1500]


def states_of(target: LoadedModel, layers: tuple[int, ...]) -> dict[int, torch.Tensor]:
    """layer -> states[T, E] of TOKENS."""
    work = Rows(tokens=TOKENS, start=0, slots=np.arange(len(TOKENS)))
    return Runner.allocate(target, len(TOKENS)).forward(pack([work], layers)).hidden


@pytest.mark.parametrize(("kind", "vocab"), [("eagle", None), ("eagle3", None), ("eagle3", 500)])
def test_an_eagle_layer(
    kind: str, vocab: int | None, target: LoadedModel, train_head: Train, host: SimpleNamespace
) -> None:
    """At each step of a chain, its rows' logits are those of the training-time test."""
    layer = load_layer(open_head("eagle", str(train_head(kind, vocab=vocab)), target), target)
    runner, shape = LayerRunner(layer, host), layer.shape  # type: ignore[arg-type]
    trained = EagleObjective(target, shape, layer.draft_ids, steps=1, seed=0)
    trained.module.load_state_dict({f"weights.{n}": t for n, t in layer.tensors.items()})
    states = states_of(target, trained.captured_layers)
    batched = {n: s[None] for n, s in states.items()}
    outs = trained._steps_of(torch.tensor([TOKENS]), batched, 3, None)
    found = [states[n] for n in shape.layers]
    true = layer.parts.normed(found[0])
    if shape.fuses:
        true = linear(torch.cat(found, dim=1), layer.tensors["fuse"])
    base = 7
    slots = np.arange(100, 100 + len(TOKENS))
    first = Piece(TOKENS[1:base], 1, slots[1:base], slots[:0], true[: base - 1])
    for step in range(3):
        out = runner.run([first])
        wanted = trained.module.logits(outs[step][0, base - 2 + step], trained._head)
        torch.testing.assert_close(out.logits[0], wanted, rtol=2e-2, atol=2e-2)
        at = base + step
        feature = out.hidden[0][-1:].clone()
        first = Piece([TOKENS[at]], at, slots[at : at + 1], slots[1:at], feature)


def test_fewer_ids_are_taught_the_targets_law_among_them(target: LoadedModel) -> None:
    """What the others would have had is spread in proportion; their logits are not computed."""
    ids = torch.tensor([3, 77, 500, 2000])
    laws = []
    for drafted in (None, ids):
        shape = shape_of(target.spec, 64, drafted, fused=False)
        trained = EagleObjective(target, shape, drafted, steps=1, seed=0)
        (states,) = states_of(target, trained.captured_layers).values()
        laws.append(trained._law(trained._parts.normed(states)))
    full, among = laws
    assert among.shape[-1] == len(ids)
    wanted = full[..., ids] / full[..., ids].sum(-1, keepdim=True)
    torch.testing.assert_close(among, wanted, rtol=1e-4, atol=1e-6)


def test_steps_in_bfloat16_are_near_those_in_float32(train_head: Train) -> None:
    """Weights stay float32; two steps leave them about a rounding of bfloat16 apart."""
    heads = [train_head("eagle", vocab=300, bfloat16=half) for half in (False, True)]
    one, other = (read_safetensors(head / "model.safetensors") for head in heads)
    for name in one.tensors:
        left, right = (file.load(name, torch.float32) for file in (one, other))
        assert not torch.equal(left, right) or left.dim() == 1
        assert torch.norm(left - right) < 0.05 * torch.norm(left) + 0.05


def test_medusa_heads(target: LoadedModel, train_head: Train) -> None:
    """Before the first step a head says what the target's own does; a trained one says its own."""
    heads = MedusaHeads.load(open_head("medusa", str(train_head("medusa")), target), target)
    (states,) = states_of(target, (target.spec.num_layers - 1,)).values()
    normed = heads.parts.normed(states)
    said = heads.logits(normed, 3)
    for index in range(3):
        block, bias = heads.matrices[f"block.{index}"], heads.biases[f"block_bias.{index}"]
        x = normed + torch.nn.functional.silu(linear(normed, block, bias))
        wanted = linear(x, heads.parts.head.weight)
        torch.testing.assert_close(said[index], wanted, rtol=1e-4, atol=1e-4)
        assert not torch.equal(wanted, linear(normed, heads.parts.head.weight))


def test_medusa_guesses_the_ids_it_learnt_and_no_others(
    target: LoadedModel, train_head: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = train_head("medusa", vocab=40)
    heads = MedusaHeads.load(open_head("medusa", str(head), target), target)
    assert heads.draft_ids is not None
    (states,) = states_of(target, (target.spec.num_layers - 1,)).values()
    normed = heads.parts.normed(states)
    everything = linear(normed, heads.parts.head.weight)
    untrained = linear(normed, heads.matrices["head"])
    assert torch.equal(untrained, everything[:, heads.draft_ids])
    llm, drafted = LLM("mini", draft=f"medusa:{head}"), set[int]()
    listen(llm, f"medusa:{head}", lambda _, draft: drafted.update(draft.tree.tokens), monkeypatch)
    params = SamplingParams(temperature=0, max_tokens=16)
    (output,) = llm.generate(PROMPTS[0], params)
    (plain,) = llm.generate(PROMPTS[0], params, speculation=Speculation(k=0))
    assert output.token_ids == plain.token_ids
    assert drafted
    assert drafted <= set(heads.draft_ids.tolist())
