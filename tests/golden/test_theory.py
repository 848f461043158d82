"""`paceline theory`: the demos' stdout to the digit, then the exact answers."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from paceline.cli.theory import theory as command
from paceline.plan.theory import render, render_exact, theory

DEMOS = """\
=== A. E[tokens per target pass] and break-even ===
 alpha |    k=2 |    k=4 |    k=8
  0.40 |  1.560 |  1.650 |  1.666
  0.50 |  1.750 |  1.938 |  1.996
  0.60 |  1.960 |  2.306 |  2.475
  0.70 |  2.190 |  2.773 |  3.199
  0.80 |  2.440 |  3.362 |  4.329
  0.90 |  2.710 |  4.095 |  6.126

cost model: C_T=1 target pass, C_D=1/30 draft pass (30x smaller draft)
  k=2: need E[accepts] > 1.067 -> alpha > ~0.40
  k=4: need E[accepts] > 1.133 -> alpha > ~0.40
  k=8: need E[accepts] > 1.267 -> alpha > ~0.40

=== B. rejection sampling reproduces the target distribution ===
target p = [0.2, 0.3, 0.35, 0.15]
draft  q = [0.35, 0.25, 0.25, 0.15]
residual = [0.0, 0.3333333333333333, 0.6666666666666666, 0.0]
empirical (200k accept/residual trials) = [0.1987, 0.2986, 0.3523, 0.1504]
total-variation distance to p = 0.0027  (0 = identical)
assertion passed: accepted tokens are distributed exactly as p
"""

EXACT = """\
=== C. exact break-even and best draft length, C_D/C_T = 1/30 ===
  k=2: pays for alpha > 0.0627
  k=4: pays for alpha > 0.1177
  k=8: pays for alpha > 0.2105
The ~0.40 above is only where the grid begins, and an alpha of about 0.65, often quoted
for k=4, is no break-even either: it gives 2.53 tokens a pass where 1.13 suffice.
  alpha=0.55: best k=4, speedup 1.862
  alpha=0.80: best k=9, speedup 3.433
  alpha=0.90: best k=16, speedup 5.434
  alpha=0.99: best k=66, speedup 15.31
"""


@pytest.fixture
def cli():
    app = typer.Typer()
    app.command()(command)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_the_demos_to_the_digit():
    assert render() == DEMOS


def test_the_exact_answers():
    assert render_exact() == EXACT


def test_the_command_prints_both(cli):
    result = cli()
    assert result.exit_code == 0
    assert result.stdout == f"{DEMOS}\n{EXACT}"


def test_the_command_prints_one_json_object(cli):
    printed = json.loads(cli("--json").stdout)
    assert set(printed) == {
        "expected", "break_even", "best", "residual", "empirical", "distance",
    }  # fmt: skip
    assert printed["break_even"][1] == {
        "k": 4,
        "tokens": pytest.approx(1 + 4 / 30),
        "grid_alpha": 0.4,
        "alpha": pytest.approx(0.1177, abs=5e-5),
    }
    assert printed["best"][0]["k"] == 4
    assert printed["expected"]["0.8"] == list(theory().expected[0.8])
    assert sum(printed["empirical"]) == pytest.approx(1)
