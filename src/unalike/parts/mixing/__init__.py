"""One rule for the mixing weights per file."""
