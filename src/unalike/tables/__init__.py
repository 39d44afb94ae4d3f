"""One model of a table, one way to write a number, and a renderer for each medium."""
