"""What models are worth: the servers' side, the clients' side, and how verdicts are found."""
