"""Runs a recipe: the loop, the simulator, evaluation and accounting."""
