"""Federated learning for data that are not alike."""
