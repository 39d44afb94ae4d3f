"""The configuration of a run: settings that are read, checked, overridden and explained."""
