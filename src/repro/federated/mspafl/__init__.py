"""MS-PAFL: Algorithm 1 of the paper, for all clients at once."""
