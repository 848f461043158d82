"""What a model's name means: the table, then paths, then the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from toy_index import TOY, WHOLE, Index

from paceline.errors import ConfigError, DownloadError, UnknownNameError
from paceline.models import hub
from paceline.models.pull import Installed, installed, pull, resolve


def test_the_listing_tells_what_is_here(cache: Path) -> None:
    by_name = {entry.name: entry for entry in installed()}
    assert list(by_name)[:2] == ["mini", "mini-draft"]
    assert by_name["mini"].status == "embedded"
    assert by_name["mini"].path.parts[-3:] == ("models", "mini", "target")
    assert by_name["mini-draft"].path.parts[-3:] == ("models", "mini", "draft")
    assert (by_name["toy"].status, by_name["toy"].size_bytes) == ("absent", 0)
    pull("toy", fetch=Index())
    told = (TOY.description, TOY.licence)
    ready = next(entry for entry in installed() if entry.name == "toy")
    assert ready == Installed("toy", "ready", cache / "toy.gguf", len(WHOLE), *told)


def test_names_of_the_table_come_before_paths(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mini").mkdir()
    assert resolve("mini").parts[-3:] == ("models", "mini", "target")
    assert resolve("./mini") == Path("mini")
    assert resolve(str(tmp_path)) == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/mini") == tmp_path / "mini"


@pytest.mark.parametrize("name", ["qwen2.5-coder-0.5", "qwen2.5-coder-0.5B"])
def test_an_unknown_name_names_the_nearest(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'qwen2\.5-coder-0\.5b'"):
        resolve(name)


@pytest.mark.parametrize(
    "name", ["", "nowhere.gguf", "./nowhere", "/nowhere/x", "a/../b", "a/b/c", "a/b/c/../d.gguf"]
)
def test_what_is_no_hub_reference_is_unknown(name: str) -> None:
    with pytest.raises(UnknownNameError, match="Unknown model"):
        pull(name)


@pytest.mark.parametrize("name", ["nowhere.gguf", "./nowhere", "/nowhere/x", "a/b/c"])
def test_a_path_of_nothing_is_called_that(name: str) -> None:
    with pytest.raises(ConfigError, match=f"There is no '{name}' here"):
        resolve(name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("org/name", ("org/name", None, None)),
        ("org/name@v1.0", ("org/name", None, "v1.0")),
        ("org/name.x-1/q4.gguf", ("org/name.x-1", "q4.gguf", None)),
        ("org/name/sub/q4.gguf@main", ("org/name", "sub/q4.gguf", "main")),
    ],
)
def test_hub_references(name: str, wanted: tuple[str, str | None, str | None]) -> None:
    assert hub.HubReference.parse(name) == hub.HubReference(*wanted)


@pytest.fixture
def hub_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """A hub whose every repository is tmp_path."""
    calls: list[tuple[Any, ...]] = []

    def snapshot(repo: str, **options: Any) -> str:
        calls.append((repo, options["revision"], tuple(options["allow_patterns"])))
        return str(tmp_path)

    def one_file(repo: str, file: str, **options: Any) -> str:
        calls.append((repo, options["revision"], file))
        return str(tmp_path / file)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", one_file)
    return calls


def test_a_hub_folder_is_fetched_without_code_or_pickles(
    hub_calls: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    with pytest.raises(DownloadError, match=r"no config\.json; .* org/name/FILE\.gguf"):
        resolve("org/name")
    (tmp_path / "config.json").write_text("{}")
    assert resolve("org/name@v1") == tmp_path
    assert hub_calls[-1][:2] == ("org/name", "v1")
    assert not [p for p in hub_calls[-1][2] if p.endswith((".py", ".bin", ".pt", ".pth", "*"))]


def test_a_hub_file_is_fetched_alone(hub_calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    assert resolve("org/name/q4.gguf") == tmp_path / "q4.gguf"
    assert hub_calls == [("org/name", None, "q4.gguf")]


def test_an_unreachable_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*args: Any, **options: Any) -> str:
        raise LocalEntryNotFoundError("Cannot find it.\nAnd much more.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(DownloadError, match=r"Cannot get 'org/name' .*Cannot find it\).*HF_TOKEN"):
        resolve("org/name")
