"""What hides a site's update from the coordinator: secure aggregation and noise."""
