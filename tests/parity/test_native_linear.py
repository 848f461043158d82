"""The native products on every path this CPU runs, against float64 and against one another."""

import pytest
import torch
from native_samples import (
    ALL,
    FLOATS,
    QUANTISED,
    dequantised,
    extreme_source,
    inputs_of,
    random_source,
)

from paceline.kernels.library import features, use_path, use_threads
from paceline.kernels.packed import pack

OUTPUTS = 37
HERE = features()


@pytest.fixture(autouse=True)
def _restore_path_and_threads():
    yield
    use_path(HERE.path)
    use_threads(HERE.threads)


def sample(weight_format, outputs=OUTPUTS, inputs=None):
    """A packed weight and its values as float64."""
    shape = outputs, inputs or inputs_of(weight_format)
    source = random_source(weight_format, *shape)
    values = dequantised(weight_format, source, *shape).double()
    return pack(weight_format, *shape, source), values


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rounding(x, values):
    """A bound on the error of float32 sums: so many units in the last place of Σ |x| |w|."""
    return 16 * 2**-24 * (x.abs().double() @ values.abs().T)


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", FLOATS)
def test_float_weights_multiply_within_float32_rounding(path, weight_format):
    use_path(path)
    weight, values = sample(weight_format)
    x, bias = normal(9, values.shape[1]), normal(OUTPUTS)
    exact = x.double() @ values.T + bias
    assert ((weight.linear(x, bias) - exact).abs() <= rounding(x, values) + 1e-6).all()


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", QUANTISED)
def test_error_is_bounded_by_half_a_step_of_int8_activations(path, weight_format):
    """x = step·q + e with |e| <= step / 2, step = max |x| / 127 over 256 inputs: so |error| is at
    most Σ step / 2 · |w|, plus float32 rounding. e is uniform, rms step / √12; the maximum of 256
    normal numbers is below 4.2 here, so the relative error is about 4.2 / 127 / √12 < 1 %."""
    use_path(path)
    weight, values = sample(weight_format)
    x, bias = normal(9, values.shape[1]), normal(OUTPUTS)
    exact = x.double() @ values.T + bias
    error = (weight.linear(x, bias) - exact).abs()
    half_steps = torch.cat(
        [part.abs().amax(1, keepdim=True).expand(part.shape) / 254 for part in x.split(256, dim=1)],
        dim=1,
    )
    assert (error <= half_steps.double() @ values.abs().T + rounding(x, values) + 1e-6).all()
    assert error.norm() <= 0.01 * exact.norm()


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", QUANTISED)
def test_integers_that_int8_holds_multiply_exactly_but_for_rounding(path, weight_format):
    use_path(path)
    weight, values = sample(weight_format)
    x = torch.randint(-127, 128, (9, values.shape[1]), generator=torch.Generator().manual_seed(2))
    x[:, ::256] = 127  # a step of exactly 1
    x = x.float()
    error = (weight.linear(x) - x.double() @ values.T).abs()
    assert (error <= rounding(x, values)).all()


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", QUANTISED)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_largest_codes_scales_and_activations_do_not_overflow(path, weight_format, sign):
    use_path(path)
    shape = 16, 512
    source = extreme_source(weight_format, *shape)
    values = dequantised(weight_format, source, *shape).double()
    x = torch.full((5, 512), 127.0) * sign
    error = (pack(weight_format, *shape, source).linear(x) - x.double() @ values.T).abs()
    assert (error <= rounding(x, values.abs() + 128 * 128)).all()


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", ALL)
def test_every_path_gives_the_same_bits(path, weight_format):
    weight, values = sample(weight_format)
    x, bias = normal(11, values.shape[1]), normal(OUTPUTS)
    use_path("portable")
    wanted = weight.linear(x, bias)
    use_path(path)
    assert torch.equal(weight.linear(x, bias), wanted)


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", ALL)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_bits_in_any_company(path, weight_format, threads):
    """Any number of rows, any place, threads 1 and 2: against each row alone on one thread."""
    use_path(path)
    weight, values = sample(weight_format, outputs=53)
    x, bias = normal(64, values.shape[1]), normal(53)
    use_threads(1)
    alone = torch.cat([weight.linear(row[None], bias) for row in x])
    use_threads(threads)
    for rows in (*range(1, 18), 31, 32, 33, 48, 64):
        for start in {0, (64 - rows) // 2, 64 - rows}:
            company = slice(start, start + rows)
            assert torch.equal(weight.linear(x[company], bias), alone[company])
    backwards = torch.arange(63, -1, -1)
    assert torch.equal(weight.linear(x[backwards], bias), alone[backwards])


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", QUANTISED)
def test_what_is_not_finite_shows_in_its_row_alone(path, weight_format):
    use_path(path)
    weight, values = sample(weight_format)
    x = normal(3, values.shape[1])
    clean = weight.linear(x)
    x[1, 40] = float("inf")
    x[2, 3] = float("nan")
    spoilt = weight.linear(x)
    assert torch.equal(spoilt[0], clean[0])
    assert spoilt[1:].isnan().all()


@pytest.mark.parametrize("path", HERE.paths)
@pytest.mark.parametrize("weight_format", ALL)
def test_rows_of_zeros_give_the_bias(path, weight_format):
    use_path(path)
    weight, values = sample(weight_format)
    bias = normal(OUTPUTS)
    assert torch.equal(weight.linear(torch.zeros(2, values.shape[1]), bias), bias.expand(2, -1))


def test_rows_may_lie_apart():
    weight, values = sample("Q4_K")
    wide = normal(5, 2 * values.shape[1])
    x = wide[:, : values.shape[1]]
    assert torch.equal(weight.linear(x), weight.linear(x.contiguous()))


def test_no_rows_give_no_rows():
    weight, values = sample("Q4_K")
    assert weight.linear(torch.empty(0, values.shape[1])).shape == (0, OUTPUTS)
