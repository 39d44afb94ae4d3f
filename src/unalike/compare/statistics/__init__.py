"""Statistics of paired repetitions: what can be claimed about methods with the same seeds."""
