"""DDP-SA: printed bounds and costs, and what the aggregate alone discloses."""
