"""`paceline doctor`: what it shows with the native library and without."""

from __future__ import annotations

import json

import pytest

from paceline.cli.doctor import advise
from paceline.kernels.library import Features
from paceline.kernels.machine import cores
from paceline.kernels.probe import Limits

LIMITS = Limits(bytes_per_s=54e9, ops_per_s=937e9)
FEATURES = Features(paths=("portable", "avx2"), path="avx2", threads=2)


@pytest.fixture
def built(cli, monkeypatch):
    """`cli` where the library is there and has been measured."""
    monkeypatch.setattr("paceline.kernels.library.available", lambda: True)
    monkeypatch.setattr("paceline.kernels.library.features", lambda: FEATURES)
    monkeypatch.setattr("paceline.kernels.probe.measure_limits", lambda: LIMITS)
    return cli


def test_table(built):
    found = " ".join(built("doctor").out.split())
    assert "kernels native, avx2 (of portable, avx2), 2 threads" in found
    assert "54.0 GB/s" in found
    assert "937 GOPS" in found


def test_json(built):
    found = json.loads(built("doctor", "--json").out)
    assert found["native"] == {"paths": ["portable", "avx2"], "path": "avx2", "threads": 2}
    assert found["limits"] == {"bytes_per_s": 54e9, "ops_per_s": 937e9}
    assert found["cores"] == cores() >= 1


def test_without_the_library(cli, monkeypatch):
    monkeypatch.setattr("paceline.kernels.library.available", lambda: False)
    result = cli("doctor", "--json")
    found = json.loads(result.out)
    assert (found["native"], found["limits"]) == (None, None)
    assert "install a C++ compiler" in found["advice"][0]
    assert "torch; the native library was not built" in cli("doctor").out


def test_advice():
    assert advise(Features(paths=("portable", "avx2"), path="avx2", threads=1)) == []
    held = advise(Features(paths=("portable", "avx2"), path="portable", threads=cores() + 1))
    assert "PACELINE_KERNELS holds back avx2" in held[0]
    assert f"{cores() + 1} threads share {cores()} cores" in held[1]
