"""Who works in a round, in which role, how long that takes, and who answers."""
