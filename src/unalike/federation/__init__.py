"""Data that are partitioned over clients: making skew and measuring it."""
