from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.errors import ConfigError, UnknownNameError
from paceline.registry import OptionString, Registry


@dataclass(frozen=True)
class Options:
    model: str
    k: int = 4
    tree: bool = False
    share: float | None = None


@pytest.mark.parametrize(
    ("text", "name", "arg", "options"),
    [
        ("ngram", "ngram", None, {}),
        ("ngram:k=8:max=3", "ngram", None, {"k": "8", "max": "3"}),
        ("model:mini-draft", "model", "mini-draft", {}),
        (
            "model:C:/m/draft.gguf:quantize=int4",
            "model",
            "C:/m/draft.gguf",
            {"quantize": "int4"},
        ),
        ("model:org/name:k=2", "model", "org/name", {"k": "2"}),
        ("model:a:b=c:d", "model", "a:b=c:d", {}),
        ("C:/my/echo.py:k=2", "C:/my/echo.py", None, {"k": "2"}),
    ],
)
def test_option_strings_come_apart_from_the_right(
    text: str, name: str, arg: str | None, options: dict[str, str]
) -> None:
    assert OptionString.parse(text) == OptionString(name, arg, options)


def test_options_are_typed_by_their_dataclass() -> None:
    option = OptionString.parse("model:m:k=7:tree=true:share=0.5")
    assert option.build(Options, "drafter") == Options("m", 7, True, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model", "'model' needs model: model:VALUE"),
        ("model:m:kk=2", "'kk'.*did you mean 'k'"),
        ("model:m:k=two", "'k' must be an integer, not 'two'"),
        ("model:m:tree=maybe", "'tree' must be True or False, not 'maybe'"),
        ("model:m:k=1:k=2", "gives the option 'k' twice"),
        ("", "names nothing"),
        (":k=2", "names nothing"),
    ],
)
def test_a_wrong_option_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OptionString.parse(text).build(Options, "drafter")


def test_an_argument_is_refused_where_none_is_taken() -> None:
    @dataclass(frozen=True)
    class Bare:
        pass

    with pytest.raises(ConfigError, match="takes no argument, not 'x'"):
        OptionString.parse("bare:x").build(Bare, "drafter")


def test_names_are_imported_when_asked_for_and_unknown_ones_name_the_nearest() -> None:
    registry: Registry[object] = Registry("thing", {"dumps": "json:dumps"})

    assert registry["dumps"] is json.dumps
    assert "dumps" in registry
    assert list(registry) == ["dumps"]
    with pytest.raises(UnknownNameError, match="Unknown thing 'dump'; did you mean 'dumps'"):
        registry["dump"]
    with pytest.raises(ConfigError, match="'dumps' is registered twice"):
        registry.register("dumps", object())


def test_a_built_in_name_is_not_shadowed_before_it_is_imported() -> None:
    registry: Registry[object] = Registry("thing", {"dumps": "json:dumps", "gone": "json:gone"})
    with pytest.raises(ConfigError, match="'dumps' is registered twice"):
        registry.register("dumps", Options)
    with pytest.raises(ConfigError, match="'gone' cannot be imported from json:gone"):
        registry["gone"]
    registry.register("own", Options("m"))
    assert registry["own"] == Options("m")


def test_a_file_registers_one_thing_and_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry: Registry[object] = Registry("thing")
    monkeypatch.setattr("paceline.drafters.base.drafters", registry)
    source = "from paceline.drafters.base import drafters\ndrafters.register({name!r}, object())\n"
    one = tmp_path / "one.py"
    one.write_text(source.format(name="one"))
    assert registry.load_file(one) is registry.load_file(one) is registry["one"]
    none, broken = tmp_path / "none.py", tmp_path / "broken.py"
    none.write_text("")
    broken.write_text("1/0\n")
    with pytest.raises(ConfigError, match=r"none\.py registers 0 things"):
        registry.load_file(none)
    with pytest.raises(ConfigError, match=r"broken\.py cannot be imported: ZeroDivisionError"):
        registry.load_file(broken)
    with pytest.raises(ConfigError, match="Cannot read the thing file"):
        registry.load_file(tmp_path / "absent.py")
