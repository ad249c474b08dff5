"""Runs, curves and pictures of random_participation."""
