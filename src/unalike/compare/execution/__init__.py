"""The runs of a comparison: budgets, processes, and the folder they end in."""
