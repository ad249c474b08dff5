"""DDP-SA: Algorithm 2 of the paper, for all clients at once."""
