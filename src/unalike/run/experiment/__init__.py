"""The live objects of a run, made from its configuration, and what is decided on the way."""
