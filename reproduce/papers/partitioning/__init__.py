"""Runs, curves and pictures of partitioning."""
