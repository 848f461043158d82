"""docs/add-a-drafter.md: its drafters run as they are printed, by the ways it names."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.chooser import Keyed
from paceline.drafters import DraftContext, Needs, drafters, parse_drafter
from paceline.engine import LLM
from paceline.errors import UnknownNameError
from paceline.sampling import History
from paceline.tree import Draft, PointMass, Sampled
from paceline.types import SamplingParams, Speculation
from paceline.verify import rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add-a-drafter.md"
PROMPT = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found, f"the page has no {language} block"
    return found


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page registers is gone after the test."""
    monkeypatch.setattr(drafters, "_found", dict(drafters._found))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The page's drafters as files, by name."""
    paths = {}
    for code in blocks("python"):
        name = re.search(r'@register\("(\w+)"\)', code).group(1)
        paths[name] = tmp_path / f"{name}.py"
        paths[name].write_text(code)
    assert set(paths) == {"echo", "bigram"}
    return paths


def context(tokens: list[int], rule: str = "token", request_id: str = "a") -> DraftContext:
    return DraftContext(
        request_id=request_id,
        owner="",
        tokens=tokens,
        prompt_tokens=1,
        params=SamplingParams(),
        rule=rules[rule],
        chooser=Keyed(7),
        table=SimpleNamespace(),
        preemptions=0,
        history=History(tokens, 1),
    )


def live(options: object, vocab_size: int = 10) -> object:
    target = SimpleNamespace(spec=SimpleNamespace(vocab_size=vocab_size))
    return options.build(SimpleNamespace(target=target))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0, max_tokens=24, ignore_eos=True),
        SamplingParams(temperature=0.9, seed=5, max_tokens=24, ignore_eos=True),
    ],
    ids=["greedy", "coupled"],
)
def test_they_run_by_path_and_change_no_text(files: dict[str, Path], params: SamplingParams):
    texts = tuple(f"{path}:k=3" for path in files.values())
    llm = LLM("mini", draft=texts)
    plain = llm.generate(PROMPT, params, speculation=Speculation(k=0))[0]
    for text in texts:
        drafted = llm.generate(PROMPT, params, speculation=Speculation(drafter=text))[0]
        assert drafted.token_ids == plain.token_ids
        assert drafted.counts.proposed > 0


def test_the_first_is_an_echo_on_any_budget(files: dict[str, Path]):
    echo = live(parse_drafter(f"{files['echo']}:k=6"))
    contexts = [context([1, 2, 3])] * 4
    assert echo.propose(contexts, [0, 1, 3, 9]) == [
        Draft.chain(PointMass(t) for t in tokens) for tokens in ((), (3,), (1, 2, 3), (1, 2, 3))
    ]


def test_options_are_its_fields(files: dict[str, Path]):
    assert parse_drafter(str(files["echo"])).k == 4
    assert parse_drafter(f"{files['echo']}:k=6").k == 6
    assert parse_drafter(f"{files['echo']}:5").k == 5
    with pytest.raises(UnknownNameError, match="did you mean 'k'"):
        parse_drafter(f"{files['echo']}:kk=6")


def test_the_second_hands_over_the_law_it_drew_from(files: dict[str, Path]):
    """1 was followed by 2, 2, 3: q(2) = 2/3, q(3) = 1/3."""
    bigram = live(parse_drafter(str(files["bigram"])))
    (draft,) = bigram.propose([context([1, 2, 1, 2, 1, 3, 1])], [1])
    ((trial,), _) = draft.trials
    assert isinstance(trial, Sampled)
    assert trial.token in (2, 3)
    assert draft.draft_probs[trial.law].tolist() == pytest.approx(
        [0, 0, 2 / 3, 1 / 3, 0, 0, 0, 0, 0, 0]
    )


def test_the_second_draws_as_the_rule_wants_and_stops_where_it_knows_nothing(
    files: dict[str, Path],
):
    bigram = live(parse_drafter(str(files["bigram"])))
    drafts = bigram.propose(
        [
            context([1, 2, 1, 2, 1, 3, 1], rule="greedy", request_id="a"),
            context([1, 2, 9], request_id="b"),
        ],
        [3, 3],
    )
    assert drafts[0].trials[0] in ((PointMass(2),), (PointMass(3),))
    assert len(drafts[1]) == 0
    bigram.release("a")
    assert len(bigram.propose([context([2, 1])], [3])[0]) == 0


def test_the_entry_point_is_of_the_group_that_is_read():
    (table,) = (tomllib.loads(re.sub(r"^  ", "", text, flags=re.M)) for text in blocks("toml"))
    assert list(table["project"]["entry-points"]) == [drafters.group]


def test_every_need_is_on_the_page():
    page = PAGE.read_text("utf-8")
    for need in dataclasses.fields(Needs):
        assert re.search(rf"Needs\({need.name}=", page), need.name


def test_what_the_page_points_at_exists():
    root = PAGE.parents[1]
    for path in re.findall(r"`((?:paceline|tests)/[\w/.]+)`", PAGE.read_text("utf-8")):
        assert (root / path).exists(), path
