"""Runs, curves and pictures of pmsfl."""
