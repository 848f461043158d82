"""Engines by turns: a stub of llama-server, stubs of Python packages, and what is read off."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.bench.peers.engines import enter, peer_of
from paceline.bench.peers.in_python import OpenVINO, Transformers
from paceline.bench.peers.llama_server import LlamaCpp
from paceline.bench.peers.ours import contenders
from paceline.bench.peers.race import Contender, Group, Job, Race, Said, run_race
from paceline.bench.peers.ratios import OURS, ratios, report
from paceline.bench.peers.vllm_server import VLLM, complete
from paceline.bench.setting import Setting
from paceline.errors import ConfigError, UnknownNameError
from paceline.types import SamplingParams
from tests.stub_endpoint import serving
from tests.stub_engine import write_stub

JOB = Job(
    model=Path("some.gguf"), draft=Path("small.gguf"), threads=2, context_tokens=256,
    temperature=0.0, seed=3,
)  # fmt: skip
PROMPTS = {"edit": [[1, 2], [3]], "chat": [[4]]}


def run(entered, turns=2, tokens=5, batch=1) -> Race:
    *progress, race = run_race(entered, PROMPTS, tokens, turns, batch)
    assert set(progress) <= {None}
    return race


def test_llama_cpp_runs_every_way_its_help_lists(tmp_path) -> None:
    lineup = LlamaCpp(str(write_stub(tmp_path))).lineup(JOB)
    assert lineup.version == "version: 4321 (stub)"
    assert [one.way for one in lineup.contenders] == [
        *("plain", "draft model, n=4", "draft model, n=8"),
        *("ngram-simple", "ngram-mod", "ngram-mod 12/4/15"),
    ]
    race = run(lineup.contenders)
    assert race.lost == {
        "llama.cpp, ngram-simple": f"{tmp_path}/llama-server ended: cannot look n-grams up today"
    }
    assert race.speeds("llama.cpp, plain", "edit") == pytest.approx([50, 50])
    assert race.overall("llama.cpp, draft model, n=4") == pytest.approx(100)
    assert race.forks("llama.cpp, ngram-mod", "llama.cpp, plain") == (4, 4)
    assert race.forks("llama.cpp, draft model, n=8", "llama.cpp, plain") == (0, 4)
    starts = (tmp_path / "log").read_text().splitlines()
    drafting = "-md small.gguf --spec-type draft-simple --spec-draft-n-max 4"
    base = "start -m some.gguf -t 2 -np 1 -c 256"
    assert starts[:2] == [base, f"{base} {drafting}"]
    assert starts[-1] == base  # the second turn goes the other way round
    assert len(starts) == 6 + 5


def test_every_start_warms_up_and_turns_go_through_the_prompts(tmp_path) -> None:
    plain = LlamaCpp(str(tmp_path if write_stub(tmp_path) else "")).lineup(JOB).contenders[:1]
    run(plain)
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert [(one["prompt"], one["n_predict"]) for one in asked] == [
        *(([1, 2], 8), ([1, 2], 5), ([4], 5)),
        *(([3], 8), ([3], 5), ([4], 5)),
    ]
    assert {(one["temperature"], one["seed"], one["ignore_eos"]) for one in asked} == {(0, 3, True)}


def test_what_learns_has_a_turn_before_the_first() -> None:
    asked = []

    @contextmanager
    def start():
        asked.append("start")
        yield (
            lambda prompts, tokens: (
                asked.append((*prompts, tokens)) or [Said(tokens, 1.0, ()) for _ in prompts]
            )
        )

    race = run([Contender("E", "w", start, learns=True)])
    assert asked == [
        *("start", ([3], 5), ([4], 5), ([1, 2], 5), ([4], 5)),
        *("start", ([3], 8), ([3], 5), ([4], 5)),
    ]
    assert {kind: len(said) for kind, said in race.said["E, w"].items()} == {"edit": 2, "chat": 2}


def test_requests_at_once_count_together(tmp_path, mini) -> None:
    two = replace(JOB, batch=2)
    plain = LlamaCpp(str(write_stub(tmp_path))).lineup(two).contenders[0]
    own = contenders(mini, SamplingParams(temperature=0, ignore_eos=True))
    race = run([plain, *own], batch=2)
    assert race.lost == {}
    assert (tmp_path / "log").read_text().startswith("start -m some.gguf -t 2 -np 2 -c 512")
    for said in race.said.values():
        for group in (one for groups in said.values() for one in groups):
            assert [one.tokens for one in group.said] == [5, 5]
            assert group.tokens_per_s == pytest.approx(1e4 / group.wall_ms)
    assert race.forks(OURS, "Paceline, plain") == (0, 8)
    with pytest.raises(ConfigError, match="one request at a time"):
        Transformers().lineup(two)


def test_an_engine_that_is_not_here_is_named(tmp_path) -> None:
    asked = [f"llama.cpp:bin={write_stub(tmp_path)}", "vllm:bin=no-such-vllm"]
    entered, versions, skipped = enter(asked, JOB)
    assert len(entered) == 6
    assert versions == ["llama.cpp: version: 4321 (stub)"]
    assert skipped == {"vllm": "There is no program no-such-vllm; name one by vllm:bin=PATH."}
    with pytest.raises(ConfigError, match="no other engine to compare with"):
        enter(asked[1:], JOB)
    with pytest.raises(UnknownNameError, match="did you mean 'openvino'"):
        peer_of("openvin")


@pytest.mark.parametrize(
    ("peer", "why"),
    [
        (LlamaCpp("no-such-server"), "no program no-such-server; name one with --bin"),
        (OpenVINO(python="no-such-python"), "Cannot start no-such-python"),
        (OpenVINO(python=sys.executable), "openvino-genai is not installed"),
        (VLLM(bin=sys.executable), "give vllm:model=FOLDER"),
    ],
)
def test_why_it_cannot_run(peer, why) -> None:
    with pytest.raises(ConfigError, match=why):
        peer.lineup(JOB)


OPENVINO = """
class GenerationConfig:
    do_sample = None

class StreamerBase:
    def __init__(self):
        pass

class StreamingStatus:
    RUNNING = 0

def draft_model(path, device):
    return path

class LLMPipeline:
    def __init__(self, model, device, **more):
        print("libraries print what they like")
        if model == "broken":
            raise RuntimeError("this file is none")
        self.more = more

    def generate(self, tensor, config, streamer):
        assert config.ignore_eos and config.do_sample is False
        (ids,) = tensor
        streamer.write(int(ids[-1]))
        for _ in range(config.max_new_tokens // 2):
            streamer.write([len(self.more), getattr(config, "num_assistant_tokens", 0)])
"""


@pytest.fixture
def openvino(tmp_path, monkeypatch) -> None:
    """A package that behaves like OpenVINO GenAI."""
    (tmp_path / "openvino_genai.py").write_text(OPENVINO)
    (tmp_path / "openvino.py").write_text("def Tensor(array):\n    return array\n")
    info = tmp_path / "openvino_genai-9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openvino-genai\nVersion: 9.1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_a_python_package_runs_in_a_process_of_its_own(openvino) -> None:
    lineup = OpenVINO(draft="folder").lineup(JOB)
    assert lineup.version == "openvino-genai 9.1"
    race = run(lineup.contenders, turns=1)
    assert race.lost == {}
    texts = {name: said["edit"][0].said[0].text for name, said in race.said.items()}
    assert texts == {
        "openvino, plain": (2, 1, 0, 1, 0),
        "openvino, prompt lookup, n=5": (2, 2, 5, 2, 5),
        "openvino, draft model, n=4": (2, 2, 4, 2, 4),
    }
    assert all(one.tokens_per_s > 0 for said in race.said.values() for one in said["edit"])


def test_a_package_that_fails_is_quoted(openvino) -> None:
    lineup = OpenVINO(model="broken").lineup(JOB)
    assert lineup.skipped.keys() == {"draft model"}
    race = run(lineup.contenders[:1])
    assert race.said == {}
    assert race.lost == {"openvino, plain": "The process ended: RuntimeError: this file is none"}


def test_hugging_face_continues_a_folder(mini) -> None:
    job = Job(
        model=mini.model.path, draft=None, threads=1, context_tokens=64, temperature=0.0, seed=0
    )
    lineup = Transformers().lineup(job)
    assert lineup.skipped.keys() == {"assisted"}
    plain = lineup.contenders[0]
    ids = mini.encode("def add(a, b):\n")
    with plain.start() as decode:
        (said,) = decode([ids], 6)
    assert said.tokens == len(said.text) == 6
    assert said.decode_ms > 0


def test_vllm_is_timed_by_its_events(monkeypatch) -> None:
    """Two tokens in the second event: three tokens in one gap after the first."""
    events = [{"choices": [{"text": "a"}]}, {"choices": [{"text": "bcd"}]}]
    events += [{"choices": [], "usage": {"completion_tokens": 4}}]
    asked = []

    def answer(path, headers, body):
        asked.append(body)
        return 200, "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()

    with serving(answer) as url:
        said = asyncio.run(complete(url, "some-model", JOB, [5, 6], 4))
        assert (said.tokens, said.text) == (4, "abcd")
        events[:] = [{"error": {"message": "no room"}}]
        with pytest.raises(ConfigError, match="vLLM answered 200: no room"):
            asyncio.run(complete(url, "some-model", JOB, [5, 6], 4))
    assert asked[0]["prompt"] == [5, 6]
    assert (asked[0]["max_tokens"], asked[0]["ignore_eos"], asked[0]["seed"]) == (4, True, 3)


def test_paceline_itself_is_among_them(mini) -> None:
    own = contenders(mini, SamplingParams(temperature=0, ignore_eos=True))
    assert [one.name for one in own] == [OURS, "Paceline, plain"]
    race = run(own)
    assert race.forks(OURS, "Paceline, plain") == (0, 4)
    groups = [one for said in race.said.values() for one in said["edit"]]
    assert [[one.tokens for one in group.said] for group in groups] == [[5]] * 4


def test_ratios_are_to_the_best_of_each_peer_by_kind(mini) -> None:
    def said(*speeds: float) -> list[Group]:
        return [Group([Said(11, 1e4 / speed, (1,))], 1e9) for speed in speeds]

    @contextmanager
    def start():
        yield None

    names = [("Paceline", "automatic"), ("P", "plain"), ("P", "fast"), ("Q", "plain"), ("Q", "out")]
    race = Race(
        {
            OURS: {"edit": said(90, 60), "chat": said(30, 30)},
            "P, plain": {"edit": said(20, 20), "chat": said(25, 20)},
            "P, fast": {"edit": said(45, 20), "chat": said(10, 10)},
            "Q, plain": {"edit": said(10, 10), "chat": said(60, 60)},
        },
        {"Q, out": "it fell over"},
    )
    entered = [Contender(*name, start) for name in names]
    found = {(one.kind, one.engine): one for one in ratios(race, entered)}
    assert {key: one.best for key, one in found.items()} == {
        ("edit", "P"): "fast", ("edit", "Q"): "plain",
        ("chat", "P"): "plain", ("chat", "Q"): "plain",
    }  # fmt: skip
    assert found["edit", "P"].ratio.middle == pytest.approx(2.5)
    assert found["chat", "Q"].ratio.middle == pytest.approx(0.5)
    told = report(race, entered, {"vllm": "not here"}, Setting.of(mini, "c", ["P: 1.0"]))
    page = told.as_markdown()
    assert page.index("P: 1.0") < page.index("| edit | P | fast | 32.5 | 75.0 | 2.50 |")
    assert "| P, fast | 32.5 | 10.0 |" in page
    assert "Left out: vllm: not here" in page
    assert "Left out: Q, out: it fell over" in page
    assert json.loads(json.dumps(told.as_record()))["skipped"]["Q, out"] == "it fell over"
