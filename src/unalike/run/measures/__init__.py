"""What is measured about a run beyond its metrics, and the metric that selects rounds."""
