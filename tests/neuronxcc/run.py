"""Runs one suite: `run.py test_indexing`. Without NumPy it says so and exits with 77, which CTest counts as skipped."""

import os
import sys
import unittest

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..", "..", "python")]
sys.dont_write_bytecode = True
try:
    import numpy  # noqa: F401
except ImportError:
    print(f"skipped: {sys.executable} has no numpy (Debian: python3-numpy)")
    sys.exit(77)
suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
sys.exit(not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful())
