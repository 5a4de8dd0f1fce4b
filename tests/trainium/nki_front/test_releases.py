"""Checks the rules of each release of the Neuron SDK: one row for each change that NKI 0.7 made."""

import inspect
import os
import re
import unittest
from unittest import mock

import harness
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from harness import argument
from nki.launch import execute
from nki.tracer import releases

_HEAD = """
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki import compiler
"""
_KERNEL = """
@nki.jit{options}
def kernel(x, n):
    acc = nl.ndarray((1, 8), nl.float32, buffer=nl.sbuf)
    nisa.memset(acc, 0.0)
    one = nl.ndarray((1, 1), nl.{integer}, buffer=nl.sbuf)
    nisa.dma_copy(one, n)
    reg = nisa.register_alloc(3)
{body}
    out = nl.ndarray((1, 8), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, acc)
    return out
"""

_ADD = "nisa.tensor_scalar(acc, acc, nl.add, 1.0)"
_LOOP = f"nl.fori_loop(0, reg, lambda i: {_ADD} and None)"

# Each row: what the release changed, the body of a kernel, the oldest release that accepts it and the
# newest one, and what the others say.
RULES = (
    # Loops and registers
    ("dynamic_range is removed", f"for _ in nl.dynamic_range(reg):\n    {_ADD}", "2.27", "2.32",
     "nki.language.dynamic_range: was removed in NKI 0.7: use nki.language.fori_loop"),
    ("while register is removed", f"while reg:\n    {_ADD}\n    nisa.register_move(reg, 0)", "2.27", "2.32", "use nki.language.while_loop"),
    ("if register raises", f"if reg:\n    {_ADD}", "2.27", "2.32", "a register has no number while the kernel is traced"),
    ("not register raises", f"if not reg:\n    {_ADD}", "2.27", "2.32", "a register has no number"),
    ("int(register) raises", "int(reg)", "2.27", "2.32", "int, range: a register has no number"),
    ("range(register) raises", f"for _ in range(reg):\n    {_ADD}", "2.27", "2.32", "use nki.language.fori_loop"),
    ("affine_range(register) raises", f"for _ in nl.affine_range(reg):\n    {_ADD}", "2.27", "2.32", "use nki.language.fori_loop"),
    ("comparing a register raises", "if reg == 3: pass", "2.27", "2.32", "registers cannot be compared"),
    ("fori_loop exists", _LOOP, "2.32", "2.33", "nki.language.fori_loop: exists since NKI 0.6"),
    ("while_loop exists", "nl.while_loop(reg, lambda r: nisa.register_move(r, 0) and r)", "2.32", "2.33", "exists since NKI 0.6"),
    ("range stays", f"for _ in range(3):\n    {_ADD}", "2.27", "2.33", ""),
    ("affine_range stays", f"for _ in nl.affine_range(3):\n    {_ADD}", "2.27", "2.33", ""),
    ("sequential_range stays", f"for _ in nl.sequential_range(3):\n    {_ADD}", "2.27", "2.33", ""),
    ("static_range stays", f"for _ in nl.static_range(3):\n    {_ADD}", "2.27", "2.33", ""),
    # Scalars
    ("scalar_load exists", "nisa.scalar_load(one)", "2.33", "2.33", "nki.isa.scalar_load: exists since NKI 0.7"),
    ("NkiScalar exists", "nisa.NkiScalar(3)", "2.33", "2.33", "nki.isa.NkiScalar: exists since NKI 0.7"),
    ("scalar_store exists", "nisa.scalar_store(one, nisa.scalar_load(one) + 1)", "2.33", "2.33", "exists since NKI 0.7"),
    # Grids
    ("tiles exist", "nl.tiles(acc, tile_shape=(1, 4))", "2.33", "2.33", "nki.language.tiles: exists since NKI 0.7"),
    ("blocks exist", "nl.blocks(acc, tile_shape=(1, 4), block_shape=(1, 2))", "2.33", "2.33", "nki.language.blocks: exists"),
    ("alloc_tiles exists", "nl.alloc_tiles(tile_shape=(1, 4), element_shape=(1, 8), buffer=nl.sbuf, dtype=nl.float32)", "2.33", "2.33",
     "alloc_tiles: exists since NKI 0.7"),
    ("alloc_blocks exists",
     "nl.alloc_blocks(tile_shape=(1, 4), block_shape=(1, 2), element_shape=(1, 8), buffer=nl.sbuf, dtype=nl.float32)", "2.33", "2.33",
     "exists since NKI 0.7"),
    # Cores
    ("core_barrier names both cores", "nisa.core_barrier(acc, (0,))", "2.27", "2.32", r"cores: expected (0, 1), found (0,)"),
)  # fmt: skip

# Each row: what NKI 0.7 refuses at any time, the body of a kernel, and what the error says.
WRONG = (
    ("the step is an integer", "nl.fori_loop(0, 3, lambda i: None, step=reg)", "step: expected a positive integer"),
    ("the step is positive", "nl.fori_loop(3, 0, lambda i: None, step=-1)", "step: expected a positive integer"),
    ("the step is not zero", "nl.fori_loop(0, 3, lambda i: None, 0)", "step: expected a positive integer"),
    ("a bound is no fraction", "nl.fori_loop(0, 2.5, lambda i: None)", "upper: expected an integer, a VirtualRegister or an NkiScalar"),
    ("a bound has 32 bits", "nl.fori_loop(0, 1 << 40, lambda i: None)", "upper: expected a number of 32 bits"),
    ("a body is a function", "nl.fori_loop(0, 3, 4)", "body_fun: expected a function, found 4"),
    ("a body returns nothing", "nl.fori_loop(0, 3, lambda i: acc)", "body_fun: expected it to return nothing"),
    ("a condition is returned", "nl.while_loop(reg, lambda r: None)", "the result of body_fun: expected a register"),
    ("a condition is a register", "nl.while_loop(3, lambda r: r)", "init: expected a register with the condition, found 3"),
    ("int in a body", "nl.fori_loop(0, reg, lambda i: nisa.memset(acc, int(i)) and None)", "a register has no number"),
    ("if in a body", "nl.fori_loop(0, reg, lambda i: (1 if i else 2) and None)", "a register has no number"),
    ("a tensor ends with its body",
     "made = []\nnl.fori_loop(0, reg, lambda i: made.append(nl.zeros((1, 8), nl.float32, buffer=nl.sbuf)))\nnisa.tensor_copy(acc, made[0])",
     "was made in the loop's body and cannot be used outside it"),
    ("a tensor ends with its iteration",
     "made = [acc]\ndef body(i):\n    t = nl.ndarray((1, 8), nl.float32, buffer=nl.sbuf)\n    nisa.tensor_copy(t, made[-1])\n"
     "    made.append(t)\nnl.fori_loop(0, reg, body)", "was made in the loop's body"),
    ("a result of a body", "made = []\nnl.fori_loop(0, reg, lambda i: made.append(nl.zeros((1, 8), nl.float32, buffer=nl.shared_hbm)))\n"
     "return made[0]", "was made in the loop's body"),
    ("no loop in no_reorder", f"with nl.no_reorder():\n    {_LOOP}", "cannot stand inside nki.language.no_reorder"),
    ("no while in no_reorder", "with nl.no_reorder():\n    nl.while_loop(reg, lambda r: r)", "cannot stand inside"),
    ("names are unique in a body",
     "def body(i):\n    nisa.memset(acc, 0.0, name='zero')\n    nisa.memset(acc, 0.0, name='zero')\nnl.fori_loop(0, reg, body)",
     "the loop's body has an instruction 'zero' already"),
    ("a body is traced once", "turns = []\ndef body(i):\n    turns.append(1)\n    nisa.dma_copy(acc, x[len(turns) : len(turns) + 1])\nnl.fori_loop(0, reg, body)",
     "issues other instructions than in its first iteration"),
    ("a comparison of scalars in if", "if nisa.scalar_load(one) < 3: pass", "the result of the comparison at kernel.py:"),
    ("a comparison of scalars as a number", "nisa.scalar_store(one, nisa.scalar_load(one) == 3)", "cannot be used"),
    ("a comparison of scalars in arithmetic", "(nisa.scalar_load(one) >= 3) + 1", "cannot be used"),
    ("a comparison of scalars as a bound", "nl.fori_loop(0, nisa.scalar_load(one) > 3, lambda i: None)", "cannot be used"),
    ("a comparison of scalars as a condition", "nl.while_loop(nisa.scalar_load(one) != 3, lambda r: r)", "cannot be used"),
    ("a comparison of scalars as an offset", "x.ap([[8, 1], [1, 8]], scalar_offset=nisa.scalar_load(one) > 0)", "cannot be used"),
    ("a scalar in if", "if nisa.scalar_load(one): pass", "a register has no number"),
    ("a scalar in int", "int(nisa.scalar_load(one))", "a register has no number"),
    ("scalar_store takes no int", "nisa.scalar_store(one, 3)", "expected an NkiScalar, found 3"),
    ("scalar_load reads no PSUM", "nisa.scalar_load(nl.zeros((1, 1), nl.int32, buffer=nl.psum))", "expected one element in sbuf or hbm"),
    ("a grid names its memory", "nl.alloc_tiles(tile_shape=(1, 4), element_shape=(1, 8), dtype=nl.float32)", "buffer"),
    # Checks what earlier versions removed
    ("block dimensions", "nl.ndarray((2, nl.par_dim(3)), nl.float32)", "nki.language.par_dim was removed: use a list of tiles"),
    ("arange", "x[nl.arange(3)]", "nki.language.arange was removed: use slices"),
    ("mgrid", "nl.mgrid[0:3, 0:3]", "nki.language.mgrid was removed: use slices"),
    ("spmd_dim", "nl.spmd_dim(2, nl.nc(2))", "nki.language.spmd_dim was removed: use kernel[2]"),
    ("dynamic copies", "nisa.tensor_copy_dynamic_src(acc, acc)", "was removed: use nki.isa.tensor_copy with tensor.ap"),
    ("masks", "nisa.memset(acc, 0.0, mask=None)", "nki.isa.memset: mask was removed: use slices"),
    ("dst_rmw_op", "nisa.dma_copy(acc, x[0:1], dst_rmw_op=nl.add)", "dst_rmw_op was removed: use nki.isa.dma_compute"),
    ("unique_indices", "nisa.dma_copy(acc, x[0:1], unique_indices=True)", "unique_indices was removed: use nki.isa.dma_compute"),
    ("use_gpsimd_dma", "nisa.sendrecv(acc, acc, 0, 0, 0, use_gpsimd_dma=True)", "use_gpsimd_dma was removed: use dma_engine="),
    ("imm", "nisa.register_move(reg, imm=42)", "nki.isa.register_move: imm was removed: use src=nki.isa.register_alloc(NUMBER)"),
    ("strings as memories", "nl.ndarray((1, 8), nl.float32, buffer='sbuf')", "strings name no memory since NKI 0.3: use nl.sbuf"),
    ("unknown parameters stay unknown", "nisa.memset(acc, 0.0, frobnicate=3)", "unexpected keyword argument 'frobnicate'"),
    ("unknown names stay unknown", "nl.frobnicate(3)", "nki.language.frobnicate is not known"),
)  # fmt: skip

SIGNATURES = (
    (nki.jit, "(fn=None, *, compile_config=None, specialization_config=None, **kwargs)"),
    (nl.fori_loop, "(lower, upper, body_fun, step=1)"),
    (nl.while_loop, "(init, body_fun)"),
    (nl.tiles, "(source, *, tile_shape=None)"),
    (nl.blocks, "(source, *, tile_shape=None, block_shape)"),
    (nl.alloc_tiles, "(*, tile_shape, element_shape, buffer, dtype, address=None, name='')"),
    (nl.alloc_blocks, "(*, tile_shape, block_shape, element_shape, buffer, dtype, address=None, name='')"),
    (nisa.NkiScalar, "(state, dtype=None, is_comparison=False)"),
    (nisa.scalar_load, "(src)"),
    (nisa.scalar_store, "(dst, value)"),
    (nisa.core_barrier, "(data, cores, engine=engine.gpsimd, name=None)"),
    (ncc.all_to_all_v_prepare, "(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, "
     "priority=None, name=None)"),
    (ncc.all_to_all_v_trigger, "(prepare_instr, name=None)"),
    (ncc.all_gather_v_prepare, "(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, "
     "priority=None, name=None)"),
    (ncc.all_gather_v_trigger, "(prepare_instr, name=None)"),
)  # fmt: skip


def names_of(function) -> str:
    """Returns a signature without annotations."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<(engine\.\w+): \d+>", r"\1", text)


class Rules(harness.Folder):
    runs = 0

    def tearDown(self):
        releases.selected, releases.next_run = None, releases.NEWEST

    def run_body(self, body, *argv, options="", integer="int32", device="trn2"):
        indented = "\n".join("    " + line for line in body.split("\n"))
        path = self.file(_HEAD + _KERNEL.format(options=options, body=indented, integer=integer))
        # Python reuses the byte code of a file of the same size and second, so each file has its own second.
        self.runs += 1
        os.utime(path, (self.runs, self.runs))
        short = "i64" if integer == "int64" else "i32"
        return self.run_here("kernel.py:kernel", "--arg", "x=fp32[8,8]", "--arg", f"n={short}[1,1]", "--device", device, "--values", *argv)

    def test_each_release_has_its_rules(self):
        for change, body, oldest, newest, text in RULES:
            for sdk in ("2.28", "2.31", "2.32", "2.33"):
                with self.subTest(change, sdk=sdk):
                    done = self.run_body(body, "--sdk", sdk)
                    if oldest <= sdk <= newest:
                        self.assertEqual(done.returncode, 0, done.stderr)
                    else:
                        self.assertEqual(done.returncode, 1, done.stdout)
                        self.assertIn("error: kernel.py:", done.stderr)
                        self.assertIn(text, done.stderr)

    def test_what_the_newest_release_refuses(self):
        for rule, body, text in WRONG:
            with self.subTest(rule):
                done = self.run_body(body)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("kernel.py:", done.stderr)
                self.assertIn(text, done.stderr)

    def test_comparisons_of_wide_scalars_are_rejected_where_they_stand(self):
        for sign in ("<", "<=", ">", ">=", "==", "!="):
            done = self.run_body(f"nisa.scalar_load(one) {sign} 3", integer="int64")
            self.assertIn(f"NkiScalar {sign} 3: a comparison of 64-bit scalars is rejected", done.stderr)

    def test_comparisons_of_narrow_scalars_are_recorded(self):
        done = self.run_body("c = nisa.scalar_load(one) < 3")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_registers_in_python_raise_a_type_error(self):
        body = "try:\n    int(reg)\nexcept TypeError:\n    nisa.memset(acc, 1.0)"
        self.assertEqual(self.run_body(body).returncode, 0)

    def test_a_body_may_use_what_it_makes(self):
        body = "def body(i):\n    t = nl.ndarray((1, 8), nl.float32, buffer=nl.sbuf)\n    nisa.memset(t, 1.0, name='one')\n" \
               "    nisa.tensor_tensor(acc, acc, t, nl.add, name='add')\nnl.fori_loop(0, reg, body)\nnl.fori_loop(0, 4, body)"  # fmt: skip
        self.assertEqual(self.run_body(body).returncode, 0)

    def test_loops_that_are_right(self):
        """Sums in PSUM go on across iterations, and constants outlive the body that used them first."""
        body = """
def body(i):
    eye = nl.shared_identity_matrix(8, nl.float32)
    nisa.nc_matmul(total, eye, tile, name="product")
    nl.fori_loop(0, 2, lambda j: nisa.tensor_scalar(acc, acc, nl.add, 1.0, name="inner") and None)
tile = nl.load(x)
total = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
nl.fori_loop(0, nisa.scalar_load(one) + 3, body)
nl.fori_loop(reg, 7, body, 2)
other = nl.shared_identity_matrix(8, nl.float32)
nisa.tensor_copy(acc, total[0:1])
"""
        done = self.run_body(body, "--ref", "x[:1] * (n + 5)")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(" nc_matmul", done.stdout)

    def test_deprecated_names_get_a_note(self):
        for name in ("affine_range", "sequential_range", "static_range"):
            body = f"for _ in nl.{name}(3):\n    {_ADD}"
            self.assertIn(f"nki.language.{name} is deprecated since NKI 0.7: write range", self.run_body(body).stdout)
            self.assertNotIn("deprecated", self.run_body(body, "--sdk", "2.32").stdout)
        self.assertIn("is deprecated since NKI 0.6: write nki.language.fori_loop",
                      self.run_body(f"for _ in nl.dynamic_range(3):\n    {_ADD}", "--sdk", "2.32").stdout)  # fmt: skip

    def test_the_default_is_the_newest_release_of_the_device(self):
        body = f"for _ in nl.dynamic_range(3):\n    {_ADD}"
        for device, status in (("trn1", 0), ("trn2", 1), ("trn3", 1)):
            self.assertEqual(self.run_body(body, device=device).returncode, status, device)
        self.assertIn("--sdk: expected 2.27", self.run_body(body, "--sdk", "3.1").stderr)

    def test_options_of_jit(self):
        rows = (
            ("(platform_target='trn2')", "2.30", "platform_target: was removed in NKI 0.4: use the variable NEURON_PLATFORM"),
            ("(compile_config=3)", "2.33", "compile_config: expected a nki.compiler.CompileConfig, found 3"),
            ("(specialization_config=3)", "2.33", "specialization_config: expected a nki.compiler.SpecializationConfig"),
            ("(compile_config=compiler.CompileConfig())", "2.32", "compile_config: exists since NKI 0.7"),
            ("(platform_target='trn2')", "2.29", ""),
            ("(mode='trace')", "2.33", ""),
            ("(compile_config=compiler.CompileConfig(), specialization_config=compiler.SpecializationConfig())", "2.33", ""),
        )
        for options, sdk, text in rows:
            done = self.run_body("pass", "--sdk", sdk, options=options)
            self.assertEqual(done.returncode, 1 if text else 0, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.run_body("pass", options="(platform_target='trn1')", device="trn1").returncode, 0)

    def test_a_ring_for_prefetches_is_noted(self):
        options = "(compile_config=compiler.CompileConfig(prefetch_auto=True))"
        self.assertIn("prefetch_auto: the ring that it reserves in SBUF is not counted", self.run_body("pass", options=options).stdout)
        with mock.patch.dict(os.environ, NKI_PREFETCH_RING_SIZE="4096"):
            self.assertIn("prefetch_auto excludes the variable", self.run_body("pass", options=options).stderr)

    def test_the_old_front_end_has_no_scalars(self):
        for value in ("parser", "custom"):
            with mock.patch.dict(os.environ, NKI_COMPILER_FRONTEND=value):
                self.assertIn("only NKI's tracer accepts scalars", self.run_body("nisa.scalar_load(one)").stderr)
                self.assertIn("runs the kernel's Python in any case", self.run_body(_LOOP).stdout)
        with mock.patch.dict(os.environ, NKI_COMPILER_FRONTEND="tracer"):
            self.assertEqual(self.run_body("nisa.scalar_load(one)").returncode, 0)

    def test_errors_of_the_compiler_that_loops_may_meet_are_noted(self):
        nested = f"nl.fori_loop(0, reg, lambda i: nl.fori_loop(0, reg, lambda j: {_ADD} and None))"
        self.assertRegex(self.run_body(nested).stdout, r"kernel.py:\d+: nki.language.fori_loop: a loop inside .* NCC_ICFG018")
        self.assertNotIn("NCC_ICFG018", self.run_body(_LOOP).stdout)
        self.assertIn("NCC_IXGM002", self.run_body(_LOOP).stdout)
        self.assertNotIn("NCC_IXGM002", self.run_body(_LOOP, "--sdk", "2.32", device="trn1").stdout)

    def test_any_python_runs(self):
        body = "def numbers():\n    yield from range(3)\nclass A:\n    def __eq__(self, other): return True\nclass B(A): pass\n" \
               f"for _ in numbers():\n    if B() == 4: {_ADD}"  # fmt: skip
        self.assertEqual(self.run_body(body).returncode, 0)

    def test_legacy_kernels(self):
        self.file("""
            import neuronxcc.nki.language as nl
            def kernel(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.exp(nl.load(x)))
                return out
        """)
        args = ("kernel.py:kernel", "--arg", "x=fp32[8,8]")
        for sdk in ("2.30", "2.33"):
            done = self.run_here(*args, "--sdk", sdk)
            self.assertEqual(done.returncode, 1)
            self.assertIn("neuronxcc.nki was removed in the Neuron SDK 2.30", done.stderr)
        for sdk in ("2.28", "2.29"):
            self.assertEqual(self.run_here(*args, "--sdk", sdk).returncode, 0)
        self.assertIn("does not compile it, so the rules are those of the Neuron SDK 2.28", self.run_here(*args).stdout)
        self.assertNotIn("does not compile it", self.run_here(*args, "--device", "trn1").stdout)


class Cores(harness.Folder):
    def tearDown(self):
        releases.selected, releases.next_run = None, releases.NEWEST

    def launched(self, text, device="trn2", sdk="2.33", **variables):
        self.file(_HEAD + _KERNEL.format(options="", body="    pass", integer="int32"))
        with mock.patch.dict(os.environ, variables):
            return self.run_here(f"kernel.py:{text}", "--arg", "x=fp32[8,8]", "--arg", "n=i32[1,1]", "--device", device, "--sdk", sdk)

    def test_the_launch_and_the_variable_agree(self):
        for text, device, variables, wrong in (
            ("kernel[2]", "trn2", {}, ""),
            ("kernel[2]", "trn3", {"NEURON_LOGICAL_NC_CONFIG": "2"}, ""),
            ("kernel", "trn2", {"NEURON_LOGICAL_NC_CONFIG": "2"}, ""),
            ("kernel", "trn1", {}, ""),
            ("kernel[2]", "trn2", {"NEURON_LOGICAL_NC_CONFIG": "1"}, "asks for LNC 2 and NEURON_LOGICAL_NC_CONFIG=1 for LNC 1 (NCC_EVRF066)"),
            ("kernel[1]", "trn2", {"NEURON_LOGICAL_NC_CONFIG": "2"}, "(NCC_EVRF066)"),
            ("kernel[2]", "trn1", {}, "(NCC_EVRF066): trn1 has LNC 1 only"),
            ("kernel[4]", "trn2", {}, "launched on [4] cores, expected 1 or 2"),
            ("kernel", "trn2", {"NEURON_LOGICAL_NC_CONFIG": "4"}, "NEURON_LOGICAL_NC_CONFIG: expected 1 or 2, found '4'"),
        ):  # fmt: skip
            done = self.launched(text, device, **variables)
            self.assertEqual(done.returncode, 1 if wrong else 0, (text, device, variables, done.stderr))
            self.assertIn(wrong, done.stderr)

    def test_the_launch_is_noted(self):
        self.assertIn("LNC 1: half of a core pair idles. In a graph neuronx-cc takes LNC 2 on trn2", self.launched("kernel").stdout)
        self.assertIn("on [2] cores", self.launched("kernel", NEURON_LOGICAL_NC_CONFIG="2").stdout)
        self.assertIn("the brackets of KERNEL[2] are being deprecated", self.launched("kernel[2]").stdout)
        self.assertNotIn("LNC", self.launched("kernel", NEURON_LOGICAL_NC_CONFIG="1").stdout)
        self.assertNotIn("LNC", self.launched("kernel", "trn1").stdout)
        self.assertNotIn("LNC", self.launched("kernel", sdk="2.32").stdout)


class Calls(unittest.TestCase):
    def test_signatures(self):
        for function, expected in SIGNATURES:
            self.assertEqual(names_of(function), expected, function)

    def test_the_plugins_entry_simulates(self):
        @nki.jit
        def kernel(x, factor=1.0):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            rows = x.shape[0] // nl.num_programs(0)
            mine = nl.ds(nl.program_id(0) * rows, rows)
            nl.store(out[mine], nl.multiply(nl.load(x[mine]), factor))
            return out

        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        for lnc in (1, 2):
            np.testing.assert_array_equal(nki.simulator.simulate_kernel(kernel, (x,), {"factor": 3.0}, lnc), 3 * x)

    def test_the_variable_for_the_target(self):
        seen = []

        @nki.jit
        def kernel(x):
            seen.append(nisa.get_nc_version().value)
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out

        for name in ("trn1", "inf2", "gen2", "trn2", "gen3", "trn3", "gen4"):
            with mock.patch.dict(os.environ, NEURON_PLATFORM_TARGET_OVERRIDE=name):
                kernel(np.ones((4, 4), np.float32))
        self.assertEqual(seen, [2, 2, 2, 3, 3, 4, 4])
        with mock.patch.dict(os.environ, NEURON_PLATFORM_TARGET_OVERRIDE="trn9"), self.assertRaisesRegex(Exception, "expected one of trn1"):
            kernel(np.ones((4, 4), np.float32))

    def test_uint64(self):
        def kernel(x):
            tile = nl.ndarray(x.shape, nl.uint64, buffer=nl.sbuf)
            nisa.dma_copy(tile, x)
            out = nl.ndarray(x.shape, nl.uint64, buffer=nl.shared_hbm)
            nisa.dma_copy(out, tile)
            return out

        largest = np.array([[2**64 - 1, 5]], np.uint64)
        self.assertEqual(harness.output(kernel, argument("u64", largest)).tolist(), largest.tolist())

    def test_empty_like_a_grid(self):
        def kernel(x):
            for made in (
                nl.alloc_tiles(tile_shape=(4, 8), element_shape=(8, 16), buffer=nl.sbuf, dtype=nl.float32),
                nl.alloc_blocks(tile_shape=(4, 8), block_shape=(1, 2), element_shape=(8, 16), buffer=nl.sbuf, dtype=nl.bfloat16),
                nl.tiles(x, tile_shape=(2, 4)),
            ):
                like = nl.empty_like(made)
                for field in ("shape", "tile_shape", "element_shape", "dtype", "index_step_elements", "is_remainder"):
                    self.assertEqual(getattr(like, field), getattr(made, field), field)
                self.assertIs(type(like), type(made))
                self.assertEqual(getattr(like, "block_shape", None), getattr(made, "block_shape", None))
                self.assertIsNot(like[0, 0].data.storage, made[0, 0].data.storage)
            self.assertEqual(nl.empty_like(nl.tiles(x, tile_shape=(2, 4)), dtype=nl.int32).dtype, nl.int32)

        execute(harness.session(), kernel, (argument("fp32", np.zeros((8, 8))),), {})


class Hbm(unittest.TestCase):
    """Checks where tensors of collectives lie."""

    GROUP = ncc.ReplicaGroup([[0, 1, 2, 3]])

    def gathered(self, sources, destination, grid=(), **variables):
        def kernel(x):
            srcs = [nl.ndarray((2, 2), nl.float32, buffer=b) if b is not None else x for b in sources]
            for src in srcs:
                if src is not x:
                    nisa.dma_copy(src, x)
            dsts = [nl.ndarray((8, 2), nl.float32, buffer=destination) for _ in sources]
            ncc.all_gather(srcs, dsts, self.GROUP, 0)

        with mock.patch.dict(os.environ, variables):
            execute(harness.session(with_values=False, grid=grid), kernel, (argument("fp32", np.zeros((2, 2))),), {})

    def test_a_gather_has_sources_of_one_kind(self):
        private, shared = nl.private_hbm, nl.shared_hbm
        self.gathered([private, private], private)
        self.gathered([None], private)
        self.gathered([shared, shared], shared, grid=(2,))
        self.gathered([private], shared, NKI_LNC1_SHARED_HBM="1")
        for sources, destination, grid, text in (
            ([private, shared], private, (2,), r"srcs\[1\] is in shared_hbm and srcs\[0\] in private_hbm"),
            ([shared], private, (), "expected private_hbm at LNC 1"),
            ([private], shared, (), "or the variable NKI_LNC1_SHARED_HBM=1"),
        ):
            with self.assertRaisesRegex(Exception, text):
                self.gathered(sources, destination, grid)
        with mock.patch.object(releases, "selected", releases.RELEASES["2.32"]):
            self.gathered([shared], shared)

    def scattered(self, rows=8, ranks=4, grid=(2,), buffer=nl.shared_hbm):
        def kernel(x, table):
            src, dst = (nl.ndarray(shape, nl.float32, buffer=buffer) for shape in ((rows, 1024), (rows // 4, 1024)))
            nisa.dma_copy(src, x)
            ncc.reduce_scatter_v([src], [dst], ncc.ReplicaGroup([list(range(ranks))]), table, nl.add)

        s = harness.session(with_values=False, grid=grid)
        execute(s, kernel, (argument("fp32", np.zeros((rows, 1024))), argument("u32", np.zeros((3, ranks)))), {})
        return s

    def test_reduce_scatter_v(self):
        self.assertEqual(self.scattered().trace.instruction_counts(), {"dma_copy": 1, "sendrecv": 1})
        for options, text in (
            ({"grid": ()}, "works at LNC 2 only"),
            ({"ranks": 2}, "works with 4 ranks only .*, found 2"),
            ({"rows": 20}, "20480 bytes per rank, at most 16384"),
            ({"buffer": nl.private_hbm}, "that the kernel makes in shared_hbm"),
        ):
            with self.assertRaisesRegex(Exception, text):
                self.scattered(**options)


if __name__ == "__main__":
    unittest.main()
