"""Finished runs put to use: predictions on new rows, and models for other programs."""
