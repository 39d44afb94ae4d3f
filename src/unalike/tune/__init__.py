"""Search of settings on validation rows."""
