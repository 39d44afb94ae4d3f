"""Before the first round: who joins, what all sites agree on, how features are prepared."""
