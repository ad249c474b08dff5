"""Five algorithms of private federated learning as one Flower app.

Each algorithm is a module with three functions: `serve` is the server's side, one yield a round;
`respond` is a node's side, one call a message; `simulated` is the same run in one process with
`repro.federated`. `entry` connects them to Flower, `exchange` sends messages.
"""

ALGORITHMS = ("random_participation", "partitioning", "mspafl", "ddpsa", "pmsfl")
"""The values of `algorithm` in the run configuration."""
