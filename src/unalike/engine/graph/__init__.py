"""Servers that exchange models along the edges of a graph, with given or learned weights."""
