"""`certify --endpoint`: what a server samples, against a local model's law or another server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.certify.endpoint import Endpoint, RefusedError
from paceline.certify.forced import joint_law
from paceline.certify.gtest import GTest, all_hold, detectable_tv, two_sample_g_test
from paceline.certify.law import ALPHA, FULL, Effort, law_tests
from paceline.certify.texts import numbered, shown, text_law
from paceline.models import LoadedModel

AT_ONCE = 64
"""Samples asked for in one request, if the server gives so many."""
BEGINNINGS = (4, 8)
"""Characters. Of beginnings there are fewer, so that less is found in each."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The outcome of all tests of one server against a model's law."""

    endpoint: str
    served_model: str
    model: str
    samples: int
    texts: int
    """Texts the model can give."""
    shared_mass: float
    """The probability of texts that several outputs share, which are tested as one."""
    impossible: int
    """Samples that it cannot give."""
    example: str
    """One of them."""
    tests: tuple[GTest, ...]
    false_alarm_rate: float
    detectable_tv: float
    """Total variation of one token's law, alike in its contexts, found with 90 % power."""
    detectable_joint_tv: float
    """Total variation of the law of texts, whatever it is, found with 90 % power."""
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every text was possible and no test fails at its share of the rate."""
        return not self.impossible and all_hold(self.tests, self.false_alarm_rate)


@dataclass(frozen=True, kw_only=True)
class PairReport:
    """The outcome of all tests of two servers against each other."""

    endpoints: tuple[str, str]
    served_models: tuple[str, str]
    samples: tuple[int, int]
    texts: int
    """Texts that either of them gave."""
    tests: tuple[GTest, ...]
    false_alarm_rate: float
    detectable_tv: float
    """Total variation between their laws of whole texts that is found with 90 % power."""
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no test fails at its share of the rate."""
        return all_hold(self.tests, self.false_alarm_rate)


def audit(
    endpoint: Endpoint,
    model: LoadedModel,
    prompt: Sequence[int],
    effort: Effort = FULL,
    progress: Progress = lambda done, total: None,
) -> AuditReport:
    """Sample after prompt[P] and test the texts against the model's exact law of them.

    Raises:
        EndpointError: as `Endpoint.complete`.
    """
    started = time.perf_counter()
    ids = list(prompt)
    (samples,) = draw([endpoint], ids, effort, progress)
    joint = joint_law(model, ids)
    law = text_law(joint, model.tokenizer)
    counts = law.count(samples)
    impossible = [text for text in samples if shown(text) not in law.texts]
    tests = law_tests(law, counts)
    whole, *single = (detectable_tv(len(samples), t.cells, ALPHA / len(tests)) for t in tests)
    return AuditReport(
        endpoint=endpoint.url,
        served_model=endpoint.model,
        model=model.name,
        samples=len(samples),
        texts=len(law.probs),
        shared_mass=law.shared_mass,
        impossible=len(impossible),
        example=impossible[0] if impossible else "",
        tests=tests,
        false_alarm_rate=ALPHA,
        detectable_tv=max(single),
        detectable_joint_tv=whole,
        seconds=time.perf_counter() - started,
    )


def compare(
    pair: tuple[Endpoint, Endpoint],
    prompt: str,
    effort: Effort = FULL,
    progress: Progress = lambda done, total: None,
) -> PairReport:
    """Sample from both in turn and test whether one law explains the texts of both.

    Raises:
        EndpointError: as `Endpoint.complete`.
    """
    started = time.perf_counter()
    a, b = draw(pair, prompt, effort, progress)
    tests = pair_tests([shown(text) for text in a], [shown(text) for text in b])
    # The two-sample statistic has a noncentrality of at least 4 TV^2 times this.
    effective = len(a) * len(b) // (len(a) + len(b))
    return PairReport(
        endpoints=(pair[0].url, pair[1].url),
        served_models=(pair[0].model, pair[1].model),
        samples=(len(a), len(b)),
        texts=len({*map(shown, a), *map(shown, b)}),
        tests=tests,
        false_alarm_rate=ALPHA,
        detectable_tv=detectable_tv(effective, tests[0].cells, ALPHA / len(tests)),
        seconds=time.perf_counter() - started,
    )


def pair_tests(a: Sequence[str], b: Sequence[str]) -> tuple[GTest, ...]:
    """The whole texts, then how they begin."""
    views = [("whole texts", None), *((f"the first {n} characters", n) for n in BEGINNINGS)]
    tests = []
    for what, length in views:
        cells = np.array(numbered([text[:length] for text in (*a, *b)]))
        most = int(cells.max()) + 1
        parts = np.split(cells, [len(a)])
        counts = [np.bincount(part, minlength=most).astype(np.float64) for part in parts]
        tests.append(two_sample_g_test(what, counts[0], counts[1]))
    return tuple(tests)


def draw(
    endpoints: Sequence[Endpoint], prompt: str | list[int], effort: Effort, progress: Progress
) -> list[list[str]]:
    """As many samples of each, taken in turn.

    How many is settled before the first of them is, at the pace of some that are not tested.
    """
    at_once = [most_at_once(endpoint, prompt) for endpoint in endpoints]
    began = time.perf_counter()
    fewest = min(len(e.complete(prompt, n)) for e, n in zip(endpoints, at_once, strict=True))
    total = effort.at(fewest / (time.perf_counter() - began))
    samples: list[list[str]] = [[] for _ in endpoints]
    while any(len(own) < total for own in samples):
        for endpoint, n, own in zip(endpoints, at_once, samples, strict=True):
            missing = total - len(own)
            if missing:
                own.extend(endpoint.complete(prompt, min(n, missing))[:missing])
        progress(sum(map(len, samples)), total * len(samples))
    return samples


def most_at_once(endpoint: Endpoint, prompt: str | list[int]) -> int:
    """The most samples, a power of two, that the server takes a request for."""
    count = AT_ONCE
    while count > 1:
        try:
            endpoint.complete(prompt, count)
        except RefusedError:
            count //= 2
        else:
            return count
    endpoint.complete(prompt, 1)
    return 1
