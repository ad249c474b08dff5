"""Random participation: the catalogue, and what only the figures of this paper need."""
