"""Which engine computes the clients: by a rule, by measuring, or by an earlier measurement."""
