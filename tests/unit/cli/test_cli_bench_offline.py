"""`paceline bench offline`: cells, streams that change, and the files."""

from __future__ import annotations

import json

import pytest

SMALL = ("bench", "offline", "--turns", "1", "--max-tokens", "6", "--prompts-per-kind", "1")


def test_a_cell_by_kind_and_the_files(cli, tmp_path):
    page, figure = tmp_path / "a.md", tmp_path / "a.png"
    ran = cli(*SMALL, "--kind", "maths", "--json", "--markdown", str(page), "--plot", str(figure))
    told = json.loads(ran.out)
    assert ran.code == int(not all(one["holds"] for one in told["findings"]))
    (cell,) = told["cells"]
    assert (cell["kind"], cell["same_text"]) == ("maths", True)
    assert set(cell["policies"]) == {"off", "auto"}
    assert cell["policies"]["auto"]["first_tokens_per_s"] > 0
    assert page.read_text().index(told["setting"]["cpu"]) < page.read_text().index("| maths | 1 |")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_stream_that_changes(cli):
    ran = cli(*SMALL, "--change", "edit:chat", "--k", "2", "--draft", "ngram", "--json")
    told = json.loads(ran.out)
    assert (told["change"], told["passes"]) == ("edit → chat", [20, 40])
    assert set(told["tokens_per_s"]) == {"off", "auto", "ngram k=2"}
    assert told["findings"][0]["statement"].startswith("best k, passes 20 to 40")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--change", "edit"), "two kinds like edit:chat"),
        (("--change", "edit:edit", "--k", "2"), "two kinds like edit:chat"),
        (("--change", "edit:poems", "--k", "2"), "Unknown kind of prompts 'poems'"),
        (("--change", "edit:chat"), "give --k 1,2,4,8"),
        (("--change", "edit:chat", "--k", "2", "--batch", "4"), "single requests"),
        (("--temperature", "1"), "give --seed"),
    ],
)
def test_what_cannot_be_compared(cli, flags, why):
    ran = cli(*SMALL, *flags)
    assert ran.code == 2
    assert why in ran.err
