"""Pictures: their look (`style`), their origin (`provenance`), their files (`figure`)."""
