"""Hashes are those of the files, and are taken once."""

from __future__ import annotations

import hashlib
import json

import pytest

from paceline.certify.provenance import provenance, weights_sha256
from paceline.kernels.library import features


def test_hashes_are_kept_until_a_file_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    folder, read = tmp_path / "model", []
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.safetensors").write_bytes(name.encode() * 9)
    (folder / "config.json").write_text("{}")

    def hashed():
        return weights_sha256(folder, lambda done, total, what: read.append((done, total, what)))

    wanted = {f"{n}.safetensors": hashlib.sha256(n.encode() * 9).hexdigest() for n in "ab"}
    assert hashed() == hashed() == wanted
    assert read == [(9, 9, "hashing a.safetensors"), (9, 9, "hashing b.safetensors")]
    (folder / "a.safetensors").write_bytes(b"changed")
    assert hashed()["a.safetensors"] == hashlib.sha256(b"changed").hexdigest()
    assert len(read) == 3


@pytest.mark.parametrize("damaged", ["{", "[1]", "[" * 200_000], ids=["cut", "list", "deep"])
def test_a_damaged_store_costs_time_alone(tmp_path, monkeypatch, damaged):
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    store = tmp_path / "models" / "hashes.json"
    store.parent.mkdir()
    store.write_text(damaged)
    file = tmp_path / "m.gguf"
    file.write_bytes(b"x")
    wanted = hashlib.sha256(b"x").hexdigest()
    assert weights_sha256(file, lambda done, total, what: None) == {"m.gguf": wanted}
    assert list(json.loads(store.read_text()).values()) == [wanted]


def test_what_computed(mini, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    found = provenance("paceline certify", mini.model, ("ngram",))
    assert (found.command, found.model, found.drafts) == ("paceline certify", "mini", ("ngram",))
    assert set(found.versions) == {"paceline", "python", "torch", "numpy"}
    kernels = f"native, {features().path}" if mini.model.native else "torch on cpu"
    assert found.kernels.startswith(kernels)
