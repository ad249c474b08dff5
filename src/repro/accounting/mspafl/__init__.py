"""MS-PAFL: printed bounds, what one round discloses, what a whole run discloses."""
