#!/bin/sh
# Usage: run.sh TEST.py. Runs a test with a python3 that has NumPy. Exits with 77 if there is none.
cd "$(dirname "$0")" || exit 1
for python in /usr/bin/python3 python3; do
  if "$python" -c 'import numpy' 2> /dev/null; then
    exec "$python" -W error::DeprecationWarning "$1"
  fi
done
echo 'skipped: no python3 with NumPy: tools/install_dependencies.sh test'
exit 77
