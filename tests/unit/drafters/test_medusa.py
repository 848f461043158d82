"""Medusa: the tree that is drafted, and which heads are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from paceline.drafters.checkpoint import shipped_heads
from paceline.engine import LLM
from paceline.errors import ConfigError, ModelFileError
from paceline.models.aliases import embedded_folder
from paceline.types import SamplingParams, Speculation
from tests.conftest import PROMPTS
from tests.contracts.test_drafters import listen

SHIPPED = shipped_heads(embedded_folder("mini")) / "medusa"


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """A copy of the shipped head, to be spoilt."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "head"))


def change(head: Path, **values: Any) -> None:
    """Put other values into config.json; those of the target by their own names."""
    path = head / "config.json"
    config = json.loads(path.read_text())
    for name, value in values.items():
        (config["target"] if name in config["target"] else config)[name] = value
    path.write_text(json.dumps(config))


def test_the_tree_is_the_best_of_its_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the measured accuracies: .6, .36, .3, .216 are the likeliest four paths."""
    head = Path(shutil.copytree(SHIPPED, tmp_path / "head"))
    change(head, accuracies=[[0.6, 0.3, 0.01]] * 4)
    llm, shapes = LLM("mini", draft=f"medusa:{head}"), set()
    listen(
        llm,
        f"medusa:{head}",
        lambda _, draft: shapes.add(draft.tree.parents),
        monkeypatch,
    )
    params = SamplingParams(temperature=0, max_tokens=20)
    llm.generate(PROMPTS[0], params, speculation=Speculation(k=4))
    assert (0, 1, 0, 2) in shapes
    assert all((0, 1, 0, 2)[: len(shape)] == shape for shape in shapes)


@pytest.mark.parametrize("depth", [1, 2])
def test_depth_bounds_the_tree(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"medusa:depth={depth}"
    llm, depths = LLM("mini", draft=name), set()
    listen(llm, name, lambda _, draft: depths.add(max(draft.tree.depths)), monkeypatch)
    llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=20))
    assert max(depths) == depth


def test_a_tree_deeper_than_the_heads_is_refused() -> None:
    with pytest.raises(ConfigError, match="has 4 heads and its tree cannot be 5 deep"):
        LLM("mini", draft="medusa:depth=5")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("hidden_size", 512, "was made for mini with hidden_size 512; mini has 256"),
        ("vocab_size", 99, "was made for mini with vocab_size 99; mini has 4096"),
        ("fingerprint", "0" * 64, "mini has other weights; add force=true"),
        ("kind", "eagle", "holds a head for the drafter 'eagle', not 'medusa'"),
    ],
)
def test_a_head_for_another_model_is_refused(
    name: str, value: object, problem: str, head: Path
) -> None:
    change(head, **{name: value})
    with pytest.raises(ConfigError, match=problem):
        LLM("mini", draft=f"medusa:{head}")


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ([3, 4, 3], "draft_ids.* name an id twice"),
        ([3, 4096], "draft_ids"),
        ([3, 4], "rank more than the 2 ids that are guessed"),
    ],
)
def test_ids_to_guess_are_checked(ids: list[int], problem: str, head: Path) -> None:
    change(head, draft_ids=ids)
    with pytest.raises(ModelFileError, match=problem):
        LLM("mini", draft=f"medusa:{head}")


def test_force_lets_other_weights_of_the_same_sizes_pass(head: Path, mini: LLM) -> None:
    change(head, fingerprint="0" * 64)
    llm = LLM("mini", draft=f"medusa:{head}:force=true")
    params = SamplingParams(temperature=0, max_tokens=16)
    plain = mini.generate(PROMPTS, params, speculation=Speculation(k=0))
    assert [o.token_ids for o in llm.generate(PROMPTS, params)] == [o.token_ids for o in plain]


def test_a_truncated_head_is_refused(head: Path) -> None:
    path = head / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match="data"):
        LLM("mini", draft=f"medusa:{head}")


@pytest.mark.parametrize(
    "accuracies", [[], [[2.0]], [0.5], "x", [[0.5]] * 5, None], ids=lambda value: str(value)[:9]
)
def test_a_config_that_does_not_fit_is_refused(accuracies: object, head: Path) -> None:
    change(head, accuracies=accuracies)
    with pytest.raises(ModelFileError, match=r"accuracies|tensor"):
        LLM("mini", draft=f"medusa:{head}")


def test_where_no_head_ships_the_error_says_how_to_train_one() -> None:
    with pytest.raises(ConfigError, match=r"paceline train medusa --target mini-draft"):
        LLM("mini-draft", draft="medusa")
    with pytest.raises(ConfigError, match="holds none"):
        LLM("mini", draft="medusa:nowhere")
