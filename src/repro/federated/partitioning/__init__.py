"""Training with a randomly partitioned model: Algorithm 1 of the paper, central and federated."""
