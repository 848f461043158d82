"""The enumerating chooser answers as the keyed one would, and counts every branch once."""

from __future__ import annotations

from fractions import Fraction

import pytest

from paceline.certify.enumerate import (
    Address,
    Enumerating,
    Interval,
    Known,
    NotEnumerableError,
    branches,
    law_of,
)
from paceline.certify.toys import fractions
from paceline.chooser import Draw, Keyed, Purpose

HERE = Draw(0, 0, 0, Purpose.ACCEPT)
THERE = Draw(0, 0, 1, Purpose.ACCEPT)


def test_independent_coins():
    law = law_of(lambda c: (c.bernoulli(Fraction(1, 3), HERE), c.bernoulli(Fraction(1, 4), THERE)))
    assert law == {
        (True, True): Fraction(1, 12),
        (True, False): Fraction(1, 4),
        (False, True): Fraction(1, 6),
        (False, False): Fraction(1, 2),
    }


def test_one_address_is_one_uniform():
    law = law_of(lambda c: (c.bernoulli(Fraction(1, 3), HERE), c.bernoulli(Fraction(1, 2), HERE)))
    assert law == {
        (True, True): Fraction(1, 3),
        (False, True): Fraction(1, 6),
        (False, False): Fraction(1, 2),
    }


def test_categorical_cuts_in_order_and_leaves_out_zeros():
    law = law_of(
        lambda c: (c.categorical(fractions(1, 0, 3), HERE), c.bernoulli(Fraction(1, 2), HERE))
    )
    assert law == {
        (0, True): Fraction(1, 4),
        (2, True): Fraction(1, 4),
        (2, False): Fraction(1, 2),
    }


def test_weights_need_not_sum_to_one():
    assert law_of(lambda c: c.categorical([Fraction(2), Fraction(6)], HERE)) == {
        0: Fraction(1, 4),
        1: Fraction(3, 4),
    }


@pytest.mark.parametrize(("probability", "always"), [(0, False), (1, True), (7, True)])
def test_certain_coins_do_not_branch(probability, always):
    [branch] = branches(lambda c: c.bernoulli(Fraction(probability), HERE))
    assert branch.outcome is always
    assert branch.probability == 1


def test_what_is_known_carries_over():
    known = Known({Address(2, HERE): Interval(Fraction(0), Fraction(1, 2))})
    one_pass = list(branches(lambda c: c.bernoulli(Fraction(1, 4), HERE), 2, known))
    assert {b.outcome: b.probability for b in one_pass} == {
        True: Fraction(1, 2),
        False: Fraction(1, 2),
    }
    fresh = list(branches(lambda c: c.bernoulli(Fraction(1, 4), HERE), 3, known))
    assert {b.outcome: b.probability for b in fresh} == {
        True: Fraction(1, 4),
        False: Fraction(3, 4),
    }


def test_only_past_bases_are_forgotten():
    intervals = {Address(base, HERE): Interval() for base in (None, 1, 2, 3)}
    assert set(Known(intervals).since(2).intervals) == {
        Address(base, HERE) for base in (None, 2, 3)
    }


def test_race_has_the_same_winner_every_time():
    law = fractions(1, 2)
    assert law_of(lambda c: (c.race(law, 4), c.race(law, 4))) == {
        (0, 0): Fraction(1, 3),
        (1, 1): Fraction(2, 3),
    }


def test_races_of_two_positions_are_independent():
    law = law_of(lambda c: (c.race(fractions(1, 1), 0), c.race(fractions(1, 1), 1)))
    assert set(law.values()) == {Fraction(1, 4)}


def test_a_second_law_on_one_noise_is_refused():
    def program(chooser: Enumerating) -> None:
        chooser.race(fractions(1, 2), 0)
        chooser.race(fractions(2, 1), 0)

    with pytest.raises(NotEnumerableError, match="position 0"):
        law_of(program)
    with pytest.raises(NotEnumerableError, match="position 3"):
        law_of(lambda c: c.race(fractions(1, 2), 3, 1))


def test_floats_are_refused():
    with pytest.raises(TypeError, match="fractions"):
        law_of(lambda c: c.bernoulli(0.5, HERE))


def test_keyed_answers_lie_in_the_enumerated_pieces():
    """The same uniform gives the same answers in both choosers."""

    def program(chooser):
        return (
            chooser.categorical(fractions(1, 0, 2, 3), HERE),
            chooser.bernoulli(Fraction(1, 3), HERE),
            chooser.bernoulli(Fraction(2, 5), THERE),
        )

    pieces = {b.outcome: b.known.intervals for b in branches(program)}
    for seed in range(300):
        keyed = Keyed(seed)
        for address, interval in pieces[program(keyed)].items():
            assert interval.low < keyed.uniform(address.draw) < interval.high
