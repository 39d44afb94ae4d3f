"""Clients computed here: one by one, many in one call, several runs, several processes."""
