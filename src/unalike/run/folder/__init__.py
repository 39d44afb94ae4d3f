"""What is on disk: the records of a run, its checkpoints and results, and what proves them."""
