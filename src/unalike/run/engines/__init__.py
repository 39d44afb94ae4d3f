"""Which engine computes the clients: chosen by a rule."""
