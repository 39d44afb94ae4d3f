"""A run without a coordinator: peers fetch from one another."""
