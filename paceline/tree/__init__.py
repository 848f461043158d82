"""Drafts as data: token trees, ordered trials, the moves that commit a path."""

from paceline.tree.draft import NO_DRAFT, Draft, DraftBuilder, PointMass, Sampled, Trial
from paceline.tree.token_tree import TokenTree, kv_moves

__all__ = [
    "NO_DRAFT",
    "Draft",
    "DraftBuilder",
    "PointMass",
    "Sampled",
    "TokenTree",
    "Trial",
    "kv_moves",
]
