"""The certificate: what was checked, how, on what, and how it came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paceline.certify.audit import AuditReport, PairReport
from paceline.certify.gtest import GTest
from paceline.certify.law import LawReport
from paceline.certify.parity import ParityReport
from paceline.certify.proofs import ExactReport
from paceline.certify.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class Section:
    """One check, for people: a table between what it says and what went wrong."""

    title: str
    passed: bool
    statement: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """In one word."""
        return "passed" if self.passed else "FAILED"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """All that was run; None for what was not."""

    provenance: Provenance
    exact: ExactReport | None = None
    law: LawReport | None = None
    parity: ParityReport | None = None
    endpoint: AuditReport | PairReport | None = None

    @property
    def passed(self) -> bool:
        """Whether everything that was run held."""
        return all(section.passed for section in self.sections())

    def sections(self) -> list[Section]:
        """The checks, in order."""
        found = [
            self.exact and exact_section(self.exact),
            self.law and law_section(self.law),
            self.parity and parity_section(self.parity),
            audit_section(self.endpoint) if isinstance(self.endpoint, AuditReport) else None,
            pair_section(self.endpoint) if isinstance(self.endpoint, PairReport) else None,
        ]
        return [section for section in found if section]

    def as_record(self) -> dict[str, Any]:
        """The object that --json prints."""
        names = ("exact", "law", "parity", "endpoint")
        parts = {name: getattr(self, name) for name in names}
        return {
            "passed": self.passed,
            "provenance": asdict(self.provenance),
            **{
                name: {"passed": part.passed, **asdict(part)}
                for name, part in parts.items()
                if part
            },
        }

    def as_markdown(self) -> str:
        """A page to keep beside the model."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"# Certificate: {'passed' if self.passed else 'FAILED'}"
        yield ""
        yield from markdown_table(("", ""), provenance_rows(self.provenance))
        for section in self.sections():
            yield from ("", f"## {section.title}: {section.verdict}", "", section.statement, "")
            yield from markdown_table(section.header, section.rows)
            if section.problems:
                yield ""
            yield from (f"- {problem}" for problem in section.problems)
        yield ""


def exact_section(found: ExactReport) -> Section:
    """One row a rule."""
    return Section(
        title="Proof by enumeration",
        passed=found.passed,
        statement=(
            f"{found.cases} cases in exact fractions: the joint law of the first {found.tokens}"
            " tokens equals the target's, over as many passes as they take. Laws are those of the"
            " engine's own sampling code, or of any form; each rule, kind of trial and setting is"
            " among them."
        ),
        header=("rule", "trials", "settings", "cases", "violations"),
        rows=tuple(
            (p.rule, ", ".join(p.kinds), str(len(p.settings)), str(p.cases), str(len(p.violations)))
            for p in found.proofs
        ),
        problems=tuple(f"{p.rule}: {problem}" for p in found.proofs for problem in p.violations),
    )


def law_section(found: LawReport) -> Section:
    """One row a test."""
    problems = []
    if found.impossible:
        problems.append(f"{found.impossible} outputs have no probability under the target.")
    if not found.proposed:
        problems.append("Nothing was drafted, so this says nothing of speculation.")
    return Section(
        title="The law of sampled text",
        passed=found.passed,
        statement=(
            f"{found.samples} outputs of {found.drafter} under rule {found.rule}"
            f" ({found.accepted} of {found.proposed} drafted tokens accepted) against the exact law"
            f" of {found.sequences} possible ones. An honest engine fails with probability"
            f" {found.false_alarm_rate:g} at most. Found with 90 % power: a total variation of"
            f" {found.detectable_tv:.3f} in one token's law, of {found.detectable_joint_tv:.3f} in"
            " the joint law."
        ),
        header=header_of(found.tests, found.false_alarm_rate),
        rows=rows_of(found.tests, found.false_alarm_rate),
        problems=tuple(problems),
    )


def audit_section(found: AuditReport) -> Section:
    """One row a test."""
    impossible = (
        f"{found.impossible} texts have no probability under {found.model}, as {found.example!r}:"
        " is it the model that is served, in this precision, and does the server know top_k?"
    )
    return Section(
        title=f"The law of {found.endpoint}",
        passed=found.passed,
        statement=(
            f"{found.samples} texts of {found.served_model} there against {found.model}'s exact law"
            f" of {found.texts} possible ones (a share of {found.shared_mass:.3f} may be written in"
            " several ways, which are tested as one). An honest server fails with probability"
            f" {found.false_alarm_rate:g} at most. Found with 90 % power: a total variation of"
            f" {found.detectable_tv:.3f} in one token's law, of {found.detectable_joint_tv:.3f} in"
            " the law of texts."
        ),
        header=header_of(found.tests, found.false_alarm_rate),
        rows=rows_of(found.tests, found.false_alarm_rate),
        problems=(impossible,) if found.impossible else (),
    )


def pair_section(found: PairReport) -> Section:
    """One row a test."""
    (a, b), (model_a, model_b), (samples_a, samples_b) = (
        found.endpoints,
        found.served_models,
        found.samples,
    )
    return Section(
        title=f"The same law at {a} and {b}",
        passed=found.passed,
        statement=(
            f"{samples_a} texts of {model_a} against {samples_b} of {model_b}, of {found.texts}"
            " kinds. Two servers of one law fail with probability"
            f" {found.false_alarm_rate:g} at most. Found with 90 % power: a total variation of"
            f" {found.detectable_tv:.3f} between their laws of texts."
        ),
        header=header_of(found.tests, found.false_alarm_rate),
        rows=rows_of(found.tests, found.false_alarm_rate),
    )


def header_of(tests: Sequence[GTest], rate: float) -> tuple[str, ...]:
    """The columns of `rows_of`."""
    return ("test", "cells", "G", "p-value", f"fails at {rate / len(tests):.2g}")


def rows_of(tests: Sequence[GTest], rate: float) -> tuple[tuple[str, ...], ...]:
    """One row a test; together they fail an honest sampler at the rate at most."""
    return tuple(
        (
            test.what,
            str(test.cells),
            f"{test.statistic:.1f}",
            f"{test.p_value:.4f}",
            "no" if test.p_value > rate / len(tests) else "YES",
        )
        for test in tests
    )


def parity_section(found: ParityReport) -> Section:
    """The counts; a line for each fork."""
    return Section(
        title="The same text with speculation and without",
        passed=found.passed,
        statement=(
            f"{found.prompts} prompts, {found.tokens} tokens, {len(found.forks) or 'no'} forks."
        ),
        header=("", ""),
        rows=(
            ("acceptance rate", f"{found.acceptance_rate:.3f}"),
            ("tokens committed per pass", f"{found.mean_committed_per_pass:.2f}"),
            ("with speculation", f"{found.seconds_on:.1f} s"),
            ("without", f"{found.seconds_off:.1f} s"),
        ),
        problems=tuple(
            f"prompt {fork.prompt + 1}: the texts part at output token {fork.position}"
            f" ({told(fork.text_on, fork.token_on)} with speculation,"
            f" {told(fork.text_off, fork.token_off)} without;"
            f" the first logit led by {fork.margin:.2g}: {fork.verdict})"
            for fork in found.forks
        ),
    )


def told(text: str, token: int | None) -> str:
    """A token as a fork's line names it: on one line, whatever it holds."""
    shown = text.translate({i: f"\\x{i:02x}" for i in range(32)})
    return shown if token is None else f"{shown}, id {token}"


def provenance_rows(found: Provenance) -> list[tuple[str, str]]:
    """What the checks ran on."""
    return [
        ("command", f"`{found.command}`"),
        ("date", f"{found.date} UTC"),
        ("model", found.model or "none was run here"),
        *((f"SHA-256 of {name}", digest) for name, digest in found.weights_sha256.items()),
        ("drafts", ", ".join(found.drafts) or "none"),
        *(("server", server) for server in found.endpoints),
        ("versions", ", ".join(f"{name} {number}" for name, number in found.versions.items())),
        ("CPU", found.cpu),
        ("kernels", found.kernels),
    ]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    for cells in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
