"""Faults in drafting by another vocabulary: the law that `hetero_vocab_law` tests must see them."""

from __future__ import annotations

import pytest

from paceline.drafters.chains import Chain
from paceline.verify.laws import as_law
from tests.cases.test_cases_vocabulary import CRITICAL, g_statistic


def not_renormalised(monkeypatch):
    """The named law still counts the mass of what is not shared."""
    honest = Chain.draft

    def draft(chain):
        made = honest(chain)
        object.__setattr__(made, "draft_probs", [law * 0.7 for law in made.draft_probs or ()])
        return made

    monkeypatch.setattr(Chain, "draft", draft)


def argmax_of_the_shared(monkeypatch):
    """Proposes the best shared token and names the law it was not drawn from."""
    monkeypatch.setattr(
        Chain,
        "extend",
        lambda chain, law: (
            chain.tokens.append(int(max(range(3), key=lambda i: as_law(law)[i]))),
            chain._laws.append(law),
        ),
    )


@pytest.mark.parametrize(
    "fault", [not_renormalised, argmax_of_the_shared], ids=lambda f: f.__name__
)
def test_it_is_caught(monkeypatch, fault):
    fault(monkeypatch)
    assert g_statistic() > CRITICAL
