"""Before the first round: who joins, what all agree on, and how features are prepared together."""
