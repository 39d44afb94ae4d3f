"""Which engine is the fastest on this machine, found by measuring."""
