"""What is measured of a run beyond its metrics, and which of them it is chosen by."""
