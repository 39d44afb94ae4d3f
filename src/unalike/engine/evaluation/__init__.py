"""Evaluation of models: the servers' side, the clients' side, and what both share."""
