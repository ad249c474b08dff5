#!/bin/sh
# Run Python in the project's environment, made first where there is none:
#     sh reproduce/python.sh -m reproduce run
# This file only finds an interpreter that is new enough; environment.py beside it does the rest.
here=$(dirname "$0")
fits='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
makes='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'

for python in "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" "${CONDA_PREFIX:+$CONDA_PREFIX/bin/python}"; do
    if [ -n "$python" ] && "$python" -c "$fits" 2>/dev/null; then
        exec "$python" "$here/environment.py" "$@"
    fi
done
for python in python3 python3.13 python3.12 python3.11 python; do
    if "$python" -c "$makes" >/dev/null 2>&1; then
        exec "$python" "$here/environment.py" "$@"
    fi
done
found=$(python3 --version 2>/dev/null || echo "no python3")
echo "Python 3.11, 3.12 or 3.13 with its venv module is needed; found: $found" >&2
exit 1
