"""Runs, curves and pictures of ddpsa."""
