"""The native laws against the reference: the same ids and the same bits, on every path."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.chooser import SparseLaw
from paceline.errors import ModelError
from paceline.kernels.laws import native_laws
from paceline.kernels.library import features, use_path, use_threads
from paceline.sampling import to_laws
from paceline.sampling.pipeline import reference_laws
from paceline.types import SamplingParams

HERE = features()
TEMPERATURES = st.one_of(st.sampled_from([0, 1e-300, 0.8, 1]), st.floats(0.05, 4))
TOP_P = st.one_of(st.sampled_from([0.5, 0.95, 1 - 2**-53, 1]), st.floats(1e-6, 1))
SHAPES = st.builds(
    SamplingParams,
    temperature=TEMPERATURES,
    top_p=TOP_P,
    top_k=st.sampled_from([-1, 0, 1, 2, 7, 40, 1100]),
    min_p=st.sampled_from([0.0, 0.0, 1e-9, 0.02, 0.3, 1.0]),
)
SIZES = st.sampled_from([1, 2, 3, 63, 64, 65, 1023, 1024, 1025, 9000])


@pytest.fixture(autouse=True, scope="module")
def _restore_path_and_threads() -> Iterator[None]:
    yield
    use_path(HERE.path)
    use_threads(HERE.threads)


@st.composite
def rows(draw: st.DrawFn) -> torch.Tensor:
    """logits[N, V]: dense, on a coarse grid, half of them -inf, or equal rows."""
    N, V = draw(st.integers(1, 4)), draw(SIZES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    logits = torch.randn(N, V, generator=generator) * draw(st.sampled_from([0.1, 1, 4, 300]))
    kind = draw(st.sampled_from(["dense", "grid", "holes", "equal"]))
    if kind == "grid":
        return (logits * 4).round() / 4
    if kind == "holes":
        logits[torch.rand(N, V, generator=generator) < 0.5] = -math.inf
        logits[:, draw(st.integers(0, V - 1))] = -0.0
    return logits[:1].repeat(N, 1) if kind == "equal" else logits


def same(left: object, right: object) -> bool:
    if isinstance(left, SparseLaw) and isinstance(right, SparseLaw):
        return np.array_equal(left.ids, right.ids) and np.array_equal(left.probs, right.probs)
    return isinstance(left, np.ndarray) and np.array_equal(left, right)  # type: ignore[arg-type]


@given(rows(), st.data(), st.sampled_from(HERE.paths), st.sampled_from([1, 2]))
@settings(max_examples=200, deadline=None)
def test_the_same_bits(logits: torch.Tensor, data: st.DataObject, path: str, threads: int):
    use_path(path)
    use_threads(threads)
    params = data.draw(st.lists(SHAPES, min_size=len(logits), max_size=len(logits)))
    found, wanted = native_laws(logits, params), reference_laws(logits, params)
    assert found is not None
    assert all(same(*pair) for pair in zip(found, wanted, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_large_vocabulary_on_one_row_and_on_several(threads: int):
    use_threads(threads)
    logits = torch.randn(2, 151_936, generator=torch.Generator().manual_seed(4))
    for shape in ({"top_p": 0.95}, {"top_p": 1 - 1e-9}, {"top_k": 50}, {"min_p": 0.02}, {}):
        params = [SamplingParams(temperature=0.8, **shape)] * 2
        wanted = reference_laws(logits, params)
        together, alone = native_laws(logits, params), native_laws(logits[:1], params[:1])
        assert together is not None
        assert alone is not None
        assert same(together[0], wanted[0])
        assert same(together[1], wanted[1])
        assert same(alone[0], wanted[0])


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_row_without_a_law_is_left_to_the_reference(bad: float, temperature: float):
    logits = torch.zeros(3, 2000)
    logits[1, 1999] = bad
    assert native_laws(logits, [SamplingParams(temperature=temperature)] * 3) is None
    with pytest.raises(ModelError, match=r"^Row 1 of the logits holds"):
        to_laws(logits, [SamplingParams(temperature=temperature)] * 3)


def test_what_it_cannot_read_is_refused():
    for logits in (torch.zeros(2, 3).double(), torch.zeros(2, 0), torch.zeros(3, 3)):
        with pytest.raises(ValueError, match="No native laws"):
            native_laws(logits, [SamplingParams()] * 2)
