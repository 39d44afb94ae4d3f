"""Differential privacy of updates: clipping, noise, and what they add up to."""
