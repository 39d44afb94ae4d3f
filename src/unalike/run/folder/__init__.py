"""What is on disk: the records of a run, its checkpoints and results, and their digests."""
