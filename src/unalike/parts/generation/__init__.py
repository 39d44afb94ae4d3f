"""Synthetic examples: how generators are fitted, and how a set of examples is improved."""
