"""The live objects of a run, made from its configuration, and the decisions made then."""
