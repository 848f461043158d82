"""From requests and trees to flat rows and back."""

from paceline.runtime.pack import NextRows, Rows, pack, pack_next
from paceline.runtime.runner import Runner, next_logits

__all__ = ["NextRows", "Rows", "Runner", "next_logits", "pack", "pack_next"]
