"""Servers that hear one another: along the edges of a graph, with weights given or learned."""
