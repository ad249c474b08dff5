"""PM-SFL: printed bounds, and what its releases really disclose."""
