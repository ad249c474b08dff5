"""What exists only to make the figures of the papers; what several papers share stands here."""
