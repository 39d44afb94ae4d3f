"""Numbers that judge a model on every client: accuracy, calibration, fairness, cost to a target."""
