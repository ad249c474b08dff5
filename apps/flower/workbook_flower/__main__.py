"""The simulator beside Flower: `python -m workbook_flower <algorithm> <rounds> <clients> <servers> <seed> <file>`."""

import sys
import time
from pathlib import Path

import numpy as np

from workbook_flower.entry import algorithm, write

name, *numbers, file = sys.argv[1:]
config = dict(zip(("rounds", "clients", "servers", "seed"), map(int, numbers), strict=True))
began = time.perf_counter()
model = algorithm(name).simulated(config)
write(Path(file), model | {"seconds": np.array([time.perf_counter() - began])})
