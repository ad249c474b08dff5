"""Training with a randomly partitioned model: Algorithms 1 and 2 of the paper."""
