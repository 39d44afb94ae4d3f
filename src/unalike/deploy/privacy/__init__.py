"""What hides a site's update from the coordinator: sums under masks, and noise from secrets."""
