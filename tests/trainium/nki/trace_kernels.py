"""Traces kernels by `python -m nki.run`, all in one process.

    python3 trace_kernels.py < command lines > results

Each line of the input is a JSON list of command-line arguments. Each line of the output is [exit status, text], where
text is what the command printed.
"""

import contextlib
import io
import json
import sys

from nki import run

for line in sys.stdin:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = run.main(json.loads(line))
    print(json.dumps([status, output.getvalue()]), flush=True)
