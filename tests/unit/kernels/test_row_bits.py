"""A row's result has the same bits wherever it lies and whatever lies beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from paceline.kernels import rows

WIDTHS = [1, 3, 7, 16, 33, 64, 65, 70, 129, 192, 896]
DEPTHS = [1, 5, 16, 33, 64, 255, 1536, 4864]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def neighbours(shape: tuple[int, ...], kind: int) -> Tensor:
    """Rows of another size than the one under test: tiny, huge, zero, not finite."""
    scale = [1e-3, 1e4, 0.0, torch.inf][kind % 4]
    return torch.nan_to_num(torch.randn(shape) * scale, nan=torch.nan, posinf=torch.inf)


def same_everywhere(function: Callable[[Tensor], Tensor], row: Tensor, counts: list[int]) -> None:
    """function(rows)[place] == function(row), bit for bit, for every place of every count."""
    expected = function(row[None])[0]
    for count in counts:
        for place in range(count):
            x = neighbours((count, len(row)), place)
            x[place] = row
            assert torch.equal(function(x)[place], expected), (count, place)


@pytest.mark.parametrize("width", WIDTHS)
def test_linear_at_every_place_of_the_tile(width: int) -> None:
    for depth in DEPTHS:
        weight, bias = torch.randn(width, depth), torch.randn(width)
        row = torch.randn(depth)
        same_everywhere(lambda x, w=weight, b=bias: rows.linear(x, w, b), row, [rows.ROW_TILE])


def test_linear_for_every_number_of_rows() -> None:
    weight, row = torch.randn(130, 70), torch.randn(70)
    same_everywhere(lambda x: rows.linear(x, weight), row, [*range(1, 41)])


@pytest.mark.parametrize("width", WIDTHS)
def test_linear_does_not_depend_on_the_number_of_threads(width: int) -> None:
    for depth in DEPTHS:
        weight, x = torch.randn(width, depth), torch.randn(rows.ROW_TILE, depth)
        found = []
        for count in (1, 2, 3, 4):
            torch.set_num_threads(count)
            found.append(rows.linear(x, weight))
        assert all(torch.equal(found[0], other) for other in found), (width, depth)


def test_linear_in_bfloat16() -> None:
    weight, row = torch.randn(130, 96).bfloat16(), torch.randn(96).bfloat16()
    expected = rows.linear(row[None], weight)[0]
    for place in range(rows.ROW_TILE):
        x = torch.randn(rows.ROW_TILE, 96).bfloat16()
        x[place] = row
        assert torch.equal(rows.linear(x, weight)[place], expected)


def test_linear_is_the_product() -> None:
    for width, depth, count in [(5, 3, 1), (64, 16, 16), (130, 33, 40)]:
        weight, bias = torch.randn(width, depth), torch.randn(width)
        x = torch.randn(count, depth)
        exact = x.double() @ weight.double().T + bias
        torch.testing.assert_close(rows.linear(x, weight, bias).double(), exact, atol=1e-5, rtol=0)


def test_linear_of_no_rows() -> None:
    assert rows.linear(torch.empty(0, 8), torch.randn(70, 8)).shape == (0, 70)


@pytest.mark.parametrize("width", [1, 5, 24, 33, 64, 255, 896, 5000, 8960])
def test_functions_of_a_row(width: int) -> None:
    scale, row = torch.randn(width), torch.randn(width) * 3
    counts = [1, 2, 3, 8, 17, 40]
    same_everywhere(lambda x: rows.rms_norm(x, scale, 1e-6), row, counts)
    same_everywhere(rows.silu, row, counts)
    same_everywhere(rows.cos_sin, row, counts)


@pytest.mark.parametrize("width", [24, 896, 8960])
def test_functions_of_a_row_do_not_depend_on_the_number_of_threads(width: int) -> None:
    x, scale = torch.randn(300, width), torch.randn(width)
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append((rows.rms_norm(x, scale, 1e-6), rows.silu(x), rows.cos_sin(x)))
    for others in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_functions_of_a_row_have_their_values() -> None:
    x, scale = torch.randn(9, 40), torch.randn(40)
    wide = x.double()
    norm = wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * scale
    torch.testing.assert_close(rows.rms_norm(x, scale, 1e-6).double(), norm, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        rows.silu(x).double(), torch.nn.functional.silu(wide), atol=1e-6, rtol=0
    )
    turned = torch.cat((wide.cos(), wide.sin()), dim=-1)
    torch.testing.assert_close(rows.cos_sin(x).double(), turned, atol=1e-6, rtol=0)
