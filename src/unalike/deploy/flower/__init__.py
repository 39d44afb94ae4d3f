"""Flower as the carrier of the same messages."""
