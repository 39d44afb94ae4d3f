"""Certificates of a consortium, and audit logs."""
