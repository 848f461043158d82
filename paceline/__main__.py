"""`python -m paceline`: the same as the command `paceline`."""

from paceline.cli.start import run

run()
