"""What was found, in sentences, tables and files."""
