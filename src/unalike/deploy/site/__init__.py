"""A site: its rows, its policy, its state, and its own records."""
