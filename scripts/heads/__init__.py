"""Train the EAGLE head for a real target from text at hand and the target's own answers."""
