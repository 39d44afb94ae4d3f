"""Which engine computes the clients: by rule, by trying, and by what was found before."""
