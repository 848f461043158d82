"""Other engines beside ours: their passes, and their tokens per second."""
