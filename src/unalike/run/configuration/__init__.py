"""What a run is asked to do: settings, read, checked, overridden and explained when wrong."""
