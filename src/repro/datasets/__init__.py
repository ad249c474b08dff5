"""Data sets: where the files come from, and arrays ready for use with their provenance."""

from repro.datasets.adult import Table, load_adult
from repro.datasets.cifar import load_cifar10
from repro.datasets.dataset import Dataset
from repro.datasets.digits import load_digits
from repro.datasets.emnist import characters, load_emnist_byclass
from repro.datasets.registry import DataError, Entry, entry, fetch, find, names

__all__ = [
    "DataError",
    "Dataset",
    "Entry",
    "Table",
    "characters",
    "entry",
    "fetch",
    "find",
    "load_adult",
    "load_cifar10",
    "load_digits",
    "load_emnist_byclass",
    "names",
]
