"""`paceline bench kernels | rows | peers` on a machine whose limits are given."""

from __future__ import annotations

import json

import pytest

from paceline.kernels.library import features, use_threads
from paceline.kernels.probe import Limits, times_beside_limits


@pytest.fixture
def measuring(cli, monkeypatch):
    """`cli` with limits that are known and one thread."""
    before = features().threads
    limits = Limits(bytes_per_s=10e9, ops_per_s=100e9)
    for place in ("kernels", "rows"):
        monkeypatch.setattr(
            f"paceline.bench.{place}.times_beside_limits",
            lambda works, turns=1: (times_beside_limits(works, turns)[0], limits),
        )
    yield lambda *args: cli("bench", *args, "--threads", "1")
    use_threads(before)


def test_rows_as_json(measuring):
    ran = measuring("rows", "--model", "mini", "--rows", "1,3", "--context", "8", "--json")
    found = json.loads(ran.out)
    assert list(found) == ["rows"]
    assert [each["rows"] for each in found["rows"]] == [1, 3]
    for each in found["rows"]:
        assert set(each) == {"rows", "ms", "quartiles_ms", "gb_per_s", "limit_ms"}
        low, high = each["quartiles_ms"]
        assert low <= each["ms"] <= high
        assert each["ms"] > 0
    one, three = found["rows"]
    assert one["gb_per_s"] * one["ms"] == pytest.approx(three["gb_per_s"] * three["ms"])


def test_rows_as_a_table(measuring):
    lines = measuring("rows", "--model", "mini", "--rows", "2", "--context", "8").out.splitlines()
    assert lines[0] == "memory 10.0 GB/s, int8 100 GOPS"
    cells = [cell.strip() for cell in lines[4].strip("│").split("│")]
    assert (cells[0], cells[3]) == ("2", "1.00")
    assert float(cells[4]) == pytest.approx(float(cells[5]) / 10, abs=0.06)


def test_the_rows_of_a_requantised_model_read_less(measuring):
    def bytes_read(*options):
        ran = measuring(
            "rows", "--model", "mini", "--rows", "1", "--context", "0", *options, "--json"
        )
        (one,) = json.loads(ran.out)["rows"]
        return one["gb_per_s"] * one["ms"]

    assert bytes_read("--quantize", "int4") < 0.7 * bytes_read("--quantize", "int8")


def test_a_model_s_largest_weight_of_each_format(measuring):
    ran = measuring("kernels", "--model", "mini", "--rows", "2", "--json")
    products = json.loads(ran.out)["products"]
    assert len({each["weight_format"] for each in products}) == len(products) >= 1
    for each in products:
        operations = 4 * each["out_features"] * each["in_features"]
        assert each["gops"] * each["ms"] == pytest.approx(operations / 1e6)


@pytest.mark.parametrize("rows", ["", "0", "1,,2", "513", "x"])
def test_a_number_of_rows_that_is_none(measuring, rows):
    ran = measuring("rows", "--model", "mini", "--rows", rows)
    assert ran.code == 2
    assert "--rows takes numbers in 1 .. 512" in ran.err


def test_another_engine_is_unknown(measuring):
    ran = measuring("peers", "--model", "mini", "--rows", "1", "--engine", "lama.cpp")
    assert "llama.cpp" in ran.err
    assert ran.code == 2


def test_a_folder_is_nothing_for_the_peer(measuring):
    ran = measuring("peers", "--model", "mini", "--rows", "1")
    assert "llama.cpp reads GGUF files" in ran.err
    assert ran.code == 2
