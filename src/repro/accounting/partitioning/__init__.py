"""Model and data partitioning: printed bounds, model splitting, balanced iteration subsampling."""
