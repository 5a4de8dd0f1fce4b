"""Runs emitted kernels in the independent interpreter nki_check, all in one process. Kernels of the legacy dialect run by
means of neuronxcc_on_nki.

    python3 run_kernels.py NKI_CHECK_FOLDER < cases > results

The program reads and writes one JSON object per line. For {"argv": [...]}, it runs nki_check with these command-line
arguments, and the result is nki_check's report. For {"source", "function", "target", "inputs": {name: [rows, columns,
dtype, file]}, "output"}, it runs the kernel on the fp32 values in the files, writes the output as fp32 and answers with
the counters and warnings.
"""

import contextlib
import io
import json
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import nki_check  # noqa: E402
import numpy as np  # noqa: E402
from nki_check import nki  # noqa: E402

import neuronxcc_on_nki  # noqa: E402
import registers_on_nki  # noqa: E402

neuronxcc_on_nki.install()
registers_on_nki.install()


def check(argv):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = nki_check.main([*argv, "--json", report.name])
        text = report.read()
    result = json.loads(text) if text else {"error": output.getvalue()}
    return {**result, "status": status}


def execute(case):
    inputs = {
        name: nki.Input(np.fromfile(file, np.float32).reshape(rows, columns), dtype)
        for name, (rows, columns, dtype, file) in case["inputs"].items()
    }
    kernel = nki_check.load_kernel(f"{case['source']}:{case['function']}")
    tensor, machine = nki.execute(kernel, kwargs=inputs, target=case["target"])
    tensor.array().astype(np.float32).tofile(case["output"])
    return {"status": 0, "counters": machine.report(), "warnings": dict(machine.warnings)}


for line in sys.stdin:
    case = json.loads(line)
    try:
        result = check(case["argv"]) if "argv" in case else execute(case)
    except Exception as error:  # The test shows the error.
        result = {"status": -1, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
