"""Mutants of the code under test: how they are made, run and judged; `reproduce.mutants` is the command."""
