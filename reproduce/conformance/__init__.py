"""Adapters of the five papers' systems and of Opacus to `repro.conformance`, and their reports."""
