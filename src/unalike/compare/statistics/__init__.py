"""Statistics of paired repetitions: what may be said of methods that ran under the same seeds."""
