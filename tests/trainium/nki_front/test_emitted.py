"""Kernels that `neuronmm emit` writes: run through the tracer they compute what they should, and move the bytes and multiply
as often as their text says, which the simulator has counted without Python."""

import os
import re
import subprocess
import unittest

import harness

_PROGRAM = os.environ.get("NEURONMM_PROGRAM")
_MLP = "(silu({0}) * ({1})) @ {2}"
_CASES = (
    ("matmul_tiled", "256,384,512", (), "x.T @ w"),
    ("matmul_blocked", "256,384,1024", (), "x.T @ w"),
    ("matmul_optimized", "256,512,512", ("--dtype", "fp32"), "x.T @ w"),
    ("matmul_optimized", "256,512,512", ("--left", "natural"), "x @ w"),
    ("xuv", "256,512,128,512", (), "x @ u @ v"),
    ("xuv", "200,512,96,640", (), "x @ u @ v"),
    ("xtuv", "256,512,128,512", ("--device", "trn2"), "x.T @ u @ v"),
    ("mlp_up", "256,512,128,512", (), "(silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up)).T"),
    ("dense_mlp", "128,512,512", (), _MLP.format("x @ w_gate", "x @ w_up", "w_down")),
    ("mlp", "128,512,128,512", (), _MLP.format("x @ u_gate @ v_gate", "x @ u_up @ v_up", "u_down @ v_down")),
)
_BYTES = {"bf16": 2, "fp32": 4}


@unittest.skipUnless(_PROGRAM and os.path.exists(_PROGRAM), "no program neuronmm")
class Emitted(harness.Folder):
    def emitted(self, kernel, shape, options):
        """The text of the emitted kernel, and --arg for each operand that it names."""
        path = os.path.join(self.folder, "kernel.py")
        subprocess.run(
            [_PROGRAM, "emit", kernel, "--shape", shape, "-o", path, "--force", *options],
            check=True,
            capture_output=True,
        )
        with open(path) as file:
            text = file.read()
        names, numbers = re.search(r"^([\w, ]+) = ([\d, ]+)$", text, re.M).groups()
        sizes = dict(zip(names.split(", "), numbers.split(", ")))
        operands = re.search(r"Args:\n(.*?)\n\n", text, re.S)[1]
        given = []
        for name, dimensions, dtype in re.findall(r"(\w+): \(([\w, ]+)\) (\w+)", operands):
            given += ["--arg", f"{name}={dtype}[{','.join(sizes[d] for d in dimensions.split(', '))}]"]
        return text, given

    def test_values_and_counts(self):
        for kernel, shape, options, reference in _CASES:
            with self.subTest(kernel=kernel, shape=shape, options=options):
                text, given = self.emitted(kernel, shape, options)
                device = options[1] if "--device" in options else "trn1"
                options = ("--device", device, "--ref", reference, "--tolerance", "0.02", "--trace", "t.trace")
                done = self.run_command(f"kernel.py:{kernel}", *given, *options)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                found = harness.TraceFile(os.path.join(self.folder, "t.trace"))
                read, written, products = map(
                    int, re.search(r"(\d+) bytes from HBM, (\d+) to HBM, (\d+) nc_matmul", text).groups()
                )
                self.assertEqual(len(found.named("nc_matmul")), products)
                self.assertEqual((self._bytes(found, "src"), self._bytes(found, "dst")), (read, written))

    def _bytes(self, found, end):
        total = 0
        for transfer in found.named("dma_copy"):
            instance, pattern, _ = found.operand(transfer, end)
            if instance["memory"] == "hbm":
                elements = 1
                for _, count in pattern:
                    elements *= count
                total += elements * _BYTES[instance["dtype"]]
        return total


if __name__ == "__main__":
    unittest.main()
