"""What is on disk: the records of a run, what it is made from, and their digests."""
