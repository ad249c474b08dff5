"""Pictures: their look (`style`), their numbers (`numbers`), their files (`figure`)."""
