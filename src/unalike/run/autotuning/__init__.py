"""Which way of computing clients is the fastest, found by trying."""
