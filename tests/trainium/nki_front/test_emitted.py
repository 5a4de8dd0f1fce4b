"""Runs kernels that `neuronmm emit` writes through the tracer. They must compute what they should, and their bytes and
products must be those that the emitted text states, which the simulator has counted without Python."""

import os
import re
import subprocess
import sys
import unittest

import harness
from nki.tracer import releases

_PROGRAM = os.environ.get("NEURONMM_PROGRAM")
_GATED = "(silu({0}) * ({1})) @ {2}"
_PIVOTS = "{0}[:, :128] + {0}[:, 128:] @ {1}"
_T = f"({_PIVOTS.format('x', 'd')})"
_TG, _TU = (f"({_PIVOTS.format('x_' + half, 'd_' + half)})" for half in ("gate", "up"))
_XUV = "130,384,128,520"  # the last tiles of rows and columns are small
_NARROW = "130,384,128,512,128"
_MORE = "np.concatenate([{0}, ({0}) @ c], axis=1)"


def _two_experts(*weights, experts=2):
    """The sum over the experts 0 and 1. `weights` names each weight with the rows of one expert."""
    terms = []
    for e in range(experts):
        w = [f"{name}[{e * rows}:{(e + 1) * rows}]" for name, rows in weights]
        gate, up, down = (" @ ".join(w[i : i + len(w) // 3]) for i in range(0, len(w), len(w) // 3))
        terms.append(f"shares[:, {e}:{e + 1}] * ({_GATED.format(f'x @ {gate}', f'x @ {up}', down)})")
    return " + ".join(terms)


_MIXTURES = ("dense_moe_mlp", "moe_mlp")
# Every kernel, with its shape and what it computes.
_CASES = (
    ("matmul_tiled", "130,384,520", "x.T @ w"),
    ("matmul_hoisted", "130,384,520", "x.T @ w"),
    ("matmul_blocked", "130,384,520", "x.T @ w"),
    ("matmul_optimized", "130,256,520 --dtype fp32", "x.T @ w"),
    ("matmul_optimized", "256,256,512 --left natural", "x @ w"),
    ("matmul_fixed_order", "260,200,520", "x.T @ w"),
    ("xuv", _XUV, "x @ u @ v"),
    ("xuv", "200,256,96,520", "x @ u @ v"),
    ("xuv", "1,512,128,640 --tiling contiguous=1", "x @ u @ v"),
    ("xtuv", _XUV, "x.T @ u @ v"),
    ("xuv_transposed", _XUV, "(x @ u @ v).T"),
    ("xtuv_transposed", _XUV, "(x.T @ u @ v).T"),
    ("xuv_sequential", _XUV, "x.T @ u @ v"),
    ("xuv_naive", _XUV, "x.T @ u @ v"),
    ("xuv_pivoted", _XUV, f"{_T} @ a"),
    ("xtuv_pivoted", _XUV, "(x.T[:, :128] + x.T[:, 128:] @ d) @ a"),
    ("xuv_pivoted_out", _XUV, _MORE.format("x @ a")),
    ("xtuv_pivoted_out", _XUV, _MORE.format("x.T @ a")),
    ("mlp_up", "130,256,128,520", "(silu(x @ u_gate @ v_gate) * (x @ u_up @ v_up)).T"),
    ("dense_mlp", "128,256,512", _GATED.format("x @ w_gate", "x @ w_up", "w_down")),
    ("mlp", "128,256,128,512", _GATED.format("x @ u_gate @ v_gate", "x @ u_up @ v_up", "u_down @ v_down")),
    ("mlp", "200,256,96,520 --tiling h_on_chip=1",
     _GATED.format("x @ u_gate @ v_gate", "x @ u_up @ v_up", "u_down @ v_down")),
    ("narrow_mlp", _NARROW, _MORE.format(_GATED.format(f"{_T} @ w_gate", f"{_T} @ w_up", "w_down"))),
    ("narrow_mlp_in", "130,384,128,512", _GATED.format(f"{_T} @ w_gate", f"{_T} @ w_up", "w_down")),
    ("narrow_mlp_out", "130,384,512,128", _MORE.format(_GATED.format("x @ w_gate", "x @ w_up", "w_down"))),
    ("pivoted_mlp", _NARROW, _MORE.format(_GATED.format(f"{_TG} @ w_gate", f"{_TU} @ w_up", "w_down"))),
    ("pivoted_mlp_in", "130,384,128,512", _GATED.format(f"{_TG} @ w_gate", f"{_TU} @ w_up", "w_down")),
    ("dense_moe_mlp", "9,200,130,4,2,2", _two_experts(("w_gate", 200), ("w_up", 200), ("w_down", 130))),
    ("dense_moe_mlp", "1,256,128,3,1,1", _two_experts(("w_gate", 256), ("w_up", 256), ("w_down", 128), experts=1)),
    ("moe_mlp", "32,130,60,260,2,2,2", _two_experts(
        ("u_gate", 130), ("v_gate", 60), ("u_up", 130), ("v_up", 60), ("u_down", 260), ("v_down", 60))),
)  # fmt: skip
_DIALECTS = {"nki": "trn2", "neuronxcc": "trn1"}
_SDKS = {"nki": "2.33", "neuronxcc": "2.28"}
_BYTES = {"bf16": 2, "fp32": 4, "i32": 4}


@unittest.skipUnless(_PROGRAM and os.path.exists(_PROGRAM), "no program neuronmm")
class Emitted(harness.Folder):
    def emitted(self, kernel, shape, options):
        """Returns the text of the emitted kernel, and --arg for each operand that it names."""
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
            rule = ":arange" if dtype == "i32" else ""
            given += ["--arg", f"{name}={dtype}[{','.join(sizes.get(d, d) for d in dimensions.split(', '))}]{rule}"]
        return text, given

    def test_every_kernel_is_here(self):
        listed = subprocess.run([_PROGRAM, "kernels"], check=True, capture_output=True, text=True).stdout
        named = {kernel for kernel, _, _ in _CASES}
        self.assertGreater(len(named), 20)
        self.assertEqual(set(re.findall(r"(?m)^(\w+) +[MKrNsEAD](?:,\w)+ ", listed)), named)

    def test_the_program_knows_the_same_releases(self):
        done = subprocess.run([_PROGRAM, "nki", "kernel.py:kernel", "--sdk", "none"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(re.findall(r"\b\d\.\d+\b", done.stderr.partition("found")[0]), list(releases.RELEASES))

    def test_a_kernel_follows_the_rules_of_its_release(self):
        for sdk in ("2.28", "2.29", "2.33"):
            _, given = self.emitted("xuv", "130,256,96,300", ("--sdk", sdk, "--device", "trn2"))
            done = self.run_here("kernel.py:xuv", *given, "--sdk", sdk)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("deprecated", done.stdout)

    def test_values_and_counts(self):
        for kernel, settings, reference in _CASES:
            for dialect, device in _DIALECTS.items():
                if dialect == "neuronxcc" and kernel in _MIXTURES:
                    continue  # The dialect has no place that the data tells.
                with self.subTest(kernel=kernel, settings=settings, dialect=dialect):
                    self._check(kernel, *settings.split(), reference=reference, dialect=dialect, device=device)

    def _check(self, kernel, shape, *options, reference, dialect, device):
        text, given = self.emitted(kernel, shape, ("--sdk", _SDKS[dialect], "--device", device, *options))
        self.assertEqual("neuronxcc" in text, dialect == "neuronxcc")
        done = self.run_here(
            f"kernel.py:{kernel}", *given, "--device", device, "--ref", reference, "--tolerance", "0.02", "--trace", "t.trace"
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = harness.TraceFile(os.path.join(self.folder, "t.trace"))
        read, written, products = map(
            int, re.search(r"(\d+) bytes from HBM, (\d+) to HBM, (\d+) nc_matmul", text).groups()
        )
        self.assertEqual(len(found.named("nc_matmul")), products)
        self.assertEqual((self._bytes(found, "src"), self._bytes(found, "dst")), (read, written))

    def test_cores(self):
        for kernel, shape in (("xuv", "600,256,128,512"), ("mlp", "258,256,128,300")):
            with self.subTest(kernel=kernel):
                options = ("--device", "trn2", "--cores", "2", "--dtype", "fp32", "--driver", "simulate")
                text, _ = self.emitted(kernel, shape, options)
                self.assertIn("nl.program_id(0)", text)
                self._run_driver()

    def test_drivers(self):
        # Each driver runs in each dialect, and each kernel in each driver and in each dialect.
        for driver, dialect, kernel in (
            ("numpy", "nki", "mlp"),
            ("numpy", "neuronxcc", "xuv_pivoted_out"),
            ("simulate", "nki", "xuv_pivoted_out"),
            ("simulate", "neuronxcc", "mlp"),
        ):
            with self.subTest(driver=driver, dialect=dialect, kernel=kernel):
                # The kernel is in fp32 because NumPy has no bfloat16.
                options = ("--sdk", _SDKS[dialect], "--device", _DIALECTS[dialect], "--dtype", "fp32", "--driver", driver)
                self.emitted(kernel, "130,256,96,300", options)
                self._run_driver(warm_up=0, iterations=1)

    def test_a_driver_chooses_experts(self):
        for kernel, shape in (("dense_moe_mlp", "6,200,130,8,2,5"), ("moe_mlp", "6,200,48,130,8,2,5")):
            with self.subTest(kernel=kernel):
                options = ("--device", "trn2", "--dtype", "fp32", "--driver", "simulate")
                self.emitted(kernel, shape, options)
                self._run_driver()

    def test_a_number_beyond_the_experts_is_out_of_bounds(self):
        _, given = self.emitted("dense_moe_mlp", "2,128,64,2,1,2", ("--device", "trn2", "--dtype", "fp32"))
        done = self.run_here("kernel.py:dense_moe_mlp", *given, "--device", "trn2", "--ref", "x * 0", "--tolerance", "9")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        wrong = [text.replace("i32[1,2]:arange", "i32[1,2]*7:arange") for text in given]
        done = self.run_here("kernel.py:dense_moe_mlp", *wrong, "--device", "trn2", "--ref", "x * 0", "--tolerance", "9")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("index 7 is out of bounds", done.stdout + done.stderr)

    def _run_driver(self, **options):
        """Runs the emitted file's own main with this package in place of the SDK."""
        given = ", ".join(f"{name}={value}" for name, value in options.items())
        path = os.path.join(self.folder, "kernel.py")
        with open(path) as file:
            text = file.read()
        if "def main(warm_up" in text:
            with open(path, "w") as file:
                file.write(text.replace("\n    main()\n", f"\n    main({given})\n"))
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(": ok", done.stdout)

    def _bytes(self, found, end):
        total = 0
        for transfer in found.named("dma_copy") + found.named("dma_transpose"):
            instance, pattern, _ = found.operand(transfer, end)
            if instance["memory"] == "hbm":
                elements = 1
                for _, count in pattern:
                    elements *= count
                total += elements * _BYTES[instance["dtype"]]
        return total


if __name__ == "__main__":
    unittest.main()
