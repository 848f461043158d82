"""Where and with what something was measured: what stands above every figure."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from paceline.engine import LLM
from paceline.kernels.library import available, features
from paceline.kernels.machine import cores, cpu_name
from paceline.plan.beta import Interval


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Machine, versions, models, command."""

    date: str
    """UTC."""
    cpu: str
    cores: int
    threads: int
    kernels: str
    python: str
    torch: str
    paceline: str
    model: str
    drafts: tuple[str, ...]
    command: str
    others: tuple[str, ...] = ()
    """Other engines and their versions."""

    @classmethod
    def of(cls, llm: LLM, command: str, others: Sequence[str] = ()) -> Setting:
        """That of a model that is loaded here."""
        drafts = llm.config.speculation.drafts
        return cls.here(model=llm.model.name, drafts=drafts, command=command, others=others)

    @classmethod
    def here(
        cls, *, model: str, drafts: Sequence[str], command: str, others: Sequence[str] = ()
    ) -> Setting:
        """Look up what is of this machine."""
        native = features() if available() else None
        return cls(
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            cpu=cpu_name(),
            cores=cores(),
            threads=native.threads if native else torch.get_num_threads(),
            kernels=f"native, {native.path}" if native else "torch",
            python=platform.python_version(),
            torch=torch.__version__,
            paceline=version("paceline"),
            model=model,
            drafts=tuple(drafts),
            command=command,
            others=tuple(others),
        )

    def as_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"{self.cpu}, {self.cores} cores, {self.threads} threads, {self.kernels}; "
            f"Python {self.python}, torch {self.torch}, paceline {self.paceline}; {self.date} UTC",
            f"{self.model}, drafters: {', '.join(self.drafts) or 'none'}",
            *self.others,
            f"`{self.command}`",
        ]


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_markdown(self) -> str:
        """The table with its title above it."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(row)} |" for row in lines)])


@dataclass(frozen=True)
class Chart:
    """Bars: a group a label on the axis, a bar a series, its interval upon it."""

    title: str
    unit: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[Interval]]
    """Name -> a value and its interval for each group."""
    base: float | None = None
    """Where a line is drawn: what the values are to be compared with."""


@dataclass(frozen=True)
class Finding:
    """A statement that a measurement bears out or does not."""

    statement: str
    holds: bool

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}: {self.statement}"


@dataclass(frozen=True)
class BenchReport:
    """What a bench found, for people and for programs."""

    title: str
    setting: Setting
    tables: Sequence[Table]
    findings: Sequence[Finding]
    notes: Sequence[str]
    record: dict[str, Any]
    """All figures as plain values."""
    charts: Sequence[Chart] = ()

    def as_markdown(self) -> str:
        """The whole report."""
        parts = [f"# {self.title}", *self.setting.lines()]
        parts += [table.as_markdown() for table in self.tables]
        parts += ["\n".join(f"- {line}" for line in (*self.notes, *self.findings))]
        return "\n\n".join(parts) + "\n"

    def as_record(self) -> dict[str, Any]:
        """As plain values."""
        findings = [asdict(finding) for finding in self.findings]
        return {"setting": self.setting.as_record(), "findings": findings} | self.record
