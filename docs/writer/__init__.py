"""What docs/generate.py writes with: Markdown from settings classes, tables and docstrings."""
