"""Every mutant is put to the proofs that the real rules pass, and must fail them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.certify import cases, violation


@pytest.fixture
def caught():
    """caught(rule, **parts): the first violation among the rule's cases, parts of them replaced."""

    def search(rule, mutate=lambda case: {}, **parts):
        mutants = (replace(case, **parts, **mutate(case)) for case in cases(rule, models=4))
        return next((found for case in mutants if (found := violation(case))), None)

    return search
