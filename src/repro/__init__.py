"""Algorithms and privacy bounds of five papers on privacy amplification in federated learning.

`repro.accounting` holds the bounds, `repro.federated` the algorithms, `repro.report` the saving of
pictures with their numbers. Nothing in here knows about notebooks or the command line.
"""
