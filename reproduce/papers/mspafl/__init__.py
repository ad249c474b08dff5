"""Runs, curves and pictures of mspafl."""
