"""`paceline models`: what can be named, and what is here."""

from __future__ import annotations


def models() -> None:
    """List the models with an alias: name, state, size on this disk, what, licence, place."""
    from paceline.models.pull import installed

    for model in installed():
        size = f"{model.size_bytes / 1e6:.0f} MB" if model.size_bytes else "-"
        state = f"{model.name:<20}  {model.status:<10}  {size:>8}"
        print(f"{state}  {model.description:<40}  {model.licence:<18}  {model.path}")
