"""What is on disk: the records of a run, what they are made from, and what proves them."""
