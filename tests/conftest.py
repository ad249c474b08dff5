"""One thread for numerical libraries, set before the first of them is imported.

The tests run on tiny arrays, several processes at a time. Threads that wait for each other there make
some of them hundreds of times slower, and the number of threads would decide last digits.
"""

import os

from reproduce.machine import one_thread

os.environ.update(one_thread())
