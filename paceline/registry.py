"""Names -> lazily imported things, and the option strings that pick and configure them."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from paceline.config import from_mapping
from paceline.errors import ConfigError, PacelineError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to things of one kind.

    A name is registered by decorator, or declared as "module:attribute" and imported when first
    asked for, or found among the entry points of `group`.
    """

    def __init__(self, kind: str, lazy: dict[str, str] | None = None, group: str | None = None):
        self.kind, self.group = kind, group
        self._lazy = dict(lazy or {})
        self._found: dict[str, T] = {}
        self._files: dict[Path, T] = {}

    def register(self, name: str, thing: T) -> T:
        """Bind `name` to `thing` and return it; a second binding of a name raises ConfigError."""
        home = self._lazy.get(name, "").partition(":")[0]
        # Only classes and functions know where they were defined; an instance names its class.
        defined = getattr(thing, "__module__", home) if hasattr(thing, "__qualname__") else home
        if home not in ("", defined) or self._found.get(name, thing) is not thing:
            raise ConfigError(f"The {self.kind} '{name}' is registered twice; rename one.")
        self._found[name] = thing
        return thing

    def __contains__(self, name: str) -> bool:
        return name in self._found or name in self._lazy or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._found, *self._lazy, *self._entry_points()}))

    def __getitem__(self, name: str) -> T:
        """The thing of that name, imported if need be; raises UnknownNameError."""
        if name not in self._found:
            reference = self._lazy.get(name) or self._entry_points().get(name)
            if reference is None:
                raise UnknownNameError(self.kind, name, self)
            self.register(name, self._import(name, reference))
        return self._found[name]

    def _import(self, name: str, reference: str) -> T:
        module, _, attribute = reference.partition(":")
        try:
            thing: T = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"The {self.kind} '{name}' cannot be imported from {reference}: {error}."
            ) from error
        return thing

    def load_file(self, path: Path) -> T:
        """Import a .py file and return the one thing it registers; raises ConfigError."""
        path = path.resolve()
        if path not in self._files:
            before = set(self._found)
            self._execute(path)
            new = [name for name in self._found if name not in before]
            if len(new) != 1:
                raise ConfigError(f"{path} registers {len(new)} {self.kind}s; it must be one.")
            self._files[path] = self._found[new[0]]
        return self._files[path]

    def _execute(self, path: Path) -> None:
        spec = importlib.util.spec_from_file_location(f"paceline_file_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise ConfigError(f"Cannot read the {self.kind} file {path}.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up there
        try:
            spec.loader.exec_module(module)
        except PacelineError:
            raise
        except Exception as error:
            raise ConfigError(f"{path} cannot be imported: {error!r}.") from error

    def _entry_points(self) -> dict[str, str]:
        if self.group is None:
            return {}
        return {point.name: point.value for point in entry_points(group=self.group)}


@dataclass(frozen=True)
class OptionString:
    """NAME[:ARG][:key=value]… taken apart."""

    name: str
    arg: str | None
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> OptionString:
        """Strip `:key=value` parts from the right; what is left after NAME is ARG, colons and all.

        A path of a .py file is a NAME whole.

        Raises:
            ConfigError: the text is empty or an option is given twice.
        """
        rest, options = text.strip(), dict[str, str]()
        while found := re.fullmatch(r"(.*):([a-z_]+)=([^:]*)", rest, re.DOTALL):
            rest, key, value = found.groups()
            if key in options:
                raise ConfigError(f"'{text}' gives the option '{key}' twice.")
            options[key] = value
        name, _, arg = (rest, "", "") if rest.endswith(".py") else rest.partition(":")
        if not name:
            raise ConfigError(f"'{text}' names nothing; write NAME[:ARG][:key=value].")
        return cls(name, arg or None, options)

    def build(self, kind: type[Any], what: str) -> Any:
        """Instantiate the options dataclass `kind`; ARG goes to its first field."""
        values: dict[str, Any] = dict(self.options)
        if self.arg is not None:
            fields = dataclasses.fields(kind)
            if not fields:
                raise ConfigError(f"{what} '{self.name}' takes no argument, not '{self.arg}'.")
            values[fields[0].name] = self.arg
        for field in dataclasses.fields(kind):
            required = (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            )
            if required and field.name not in values:
                raise ConfigError(f"{what} '{self.name}' needs {field.name}: {self.name}:VALUE.")
        return from_mapping(kind, values, f"{self.name} option")
