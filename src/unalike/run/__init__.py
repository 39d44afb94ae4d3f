"""A run: a strict configuration in, a folder that can be resumed and trusted out."""
