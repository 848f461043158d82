"""Training of heads for a frozen target: text, captured states, losses, checkpoints, curves."""
