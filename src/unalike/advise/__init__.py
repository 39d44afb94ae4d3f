"""Which method suits these clients: their skew in words, then a small tournament on their data."""
