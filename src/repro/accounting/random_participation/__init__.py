"""Random participation: mechanisms, upper bounds, lower bounds by explicit data sets."""
