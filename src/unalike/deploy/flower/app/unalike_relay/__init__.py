"""Carries the messages of unalike through Flower; nothing here knows what they say."""
