"""Which engine computes the clients: by a rule, as far as it can compute them at all."""
