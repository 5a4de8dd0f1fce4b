"""Compares the trace files of small kernels with what the specification says that they must record."""

import math
import os
import struct
import unittest

import harness

_MATMUL = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((256, 512), nl.bfloat16, buffer=nl.shared_hbm)
        for m in nl.affine_range(2):
            total = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(3):
                left = nl.ndarray((128, 128), a.dtype, buffer=nl.sbuf)
                right = nl.ndarray((128, 512), b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=a[k * 128:(k + 1) * 128, m * 128:(m + 1) * 128])
                nisa.dma_copy(dst=right, src=b[k * 128:(k + 1) * 128, :])
                nisa.nc_matmul(total, left, right)
            tile = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
            nisa.tensor_copy(tile, total, engine=nisa.engine.scalar)
            nisa.dma_copy(dst=out[m * 128:(m + 1) * 128, :], src=tile)
        return out
"""
_ARGUMENTS = ("--arg", "a=bf16[384,256]", "--arg", "b=bf16[384,512]")


class Products(harness.Folder):
    def setUp(self):
        super().setUp()
        self.found = self.trace(_MATMUL, *_ARGUMENTS)

    def test_header(self):
        header = self.found.header
        self.assertEqual(
            (header["kernel"], header["file"], header["dialect"], header["device"]),
            ("kernel", "kernel.py", "nki", "trn2"),
        )
        self.assertEqual(header["files"], ["kernel.py"])
        self.assertEqual(header["counts"], {"instructions": 22, "tensors": 3 + 2 * (1 + 6 + 1)})
        self.assertEqual([header["tensors"][i]["name"] for i in header["outputs"]], ["out"])
        self.assertEqual(len({tuple(s) for s in header["sources"]}), len(header["sources"]))

    def test_instructions(self):
        self.assertEqual([i[0]["name"] for i in self.found.instructions],
                         (["dma_copy", "dma_copy", "nc_matmul"] * 3 + ["tensor_copy", "dma_copy"]) * 2)  # fmt: skip
        accumulates = [i[0]["attributes"]["accumulate"] for i in self.found.named("nc_matmul")]
        self.assertEqual(accumulates, [False, True, True] * 2)
        self.assertEqual({i[0]["engine"] for i in self.found.named("tensor_copy")}, {"scalar"})
        self.assertEqual([i[0]["operands"] for i in self.found.named("nc_matmul")][0], ["dst", "stationary", "moving"])

    def test_what_each_transfer_touches(self):
        transfers = self.found.named("dma_copy")
        m, k = 1, 2
        left = transfers[7 * m + 2 * k]
        instance, pattern, offset = self.found.operand(left, "src")
        self.assertEqual(
            (instance["name"], instance["memory"], instance["dtype"], instance["role"]), ("a", "hbm", "bf16", "input")
        )
        self.assertEqual((pattern, offset), ([[256, 128], [1, 128]], k * 128 * 256 + m * 128))
        instance, pattern, offset = self.found.operand(left, "dst")
        self.assertEqual(
            (instance["memory"], instance["shape"], pattern, offset), ("sbuf", [128, 128], [[128, 128], [1, 128]], 0)
        )
        rows = self.found.operand(transfers[7 * m + 2 * k + 1], "src")
        self.assertEqual(rows[1:], ([[1, 128 * 512]], k * 128 * 512))
        elements = self.found.elements(transfers[-1], "dst")
        self.assertEqual(elements, list(range(128 * 512, 256 * 512)))

    def test_lines_and_names(self):
        line = {i[0]["name"]: i[1] for i in self.found.instructions}
        text = _MATMUL.splitlines()
        for name, call in (("nc_matmul", "nisa.nc_matmul(total"), ("tensor_copy", "nisa.tensor_copy(tile")):
            file, number, function = line[name]
            self.assertEqual((file, function), (0, "kernel"))
            self.assertIn(call, text[number - 1])
        names = [i["name"] for i in self.found.instances]
        self.assertEqual(names[:5], ["a", "b", "out", "total", "left"])

    def test_allocations_and_releases(self):
        psum = [i for i in self.found.instances if i["memory"] == "psum"]
        self.assertEqual([(i["shape"], i["address"], i["parent"]) for i in psum], [([128, 512], -1, -1)] * 2)
        tiles = {i for i, instance in enumerate(self.found.instances) if instance["memory"] == "sbuf"}
        self.assertLessEqual(set(self.found.released), set(range(len(self.found.instances))))
        self.assertGreaterEqual(len(tiles & set(self.found.released)), len(tiles) - 3)

    def test_loops(self):
        begins = [loop for kind, loop in self.found.loops if kind == 3]
        self.assertEqual([(b["kind"], b["count"]) for b in begins], [("affine", 2), ("affine", 3), ("affine", 3)])
        self.assertEqual(sum(kind == 4 for kind, _ in self.found.loops), 2 + 6)
        self.assertEqual(sum(kind == 5 for kind, _ in self.found.loops), 3)

    def test_records_begin_at_a_multiple_of_eight(self):
        with open(os.path.join(self.folder, "t.trace"), "rb") as file:
            (size,) = struct.unpack("<I", file.read(16)[12:])
        self.assertEqual((16 + size) % 8, 0)


class Kinds(harness.Folder):
    def test_views_of_other_types_are_instances(self):
        found = self.trace(
            """
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x):
                tile = nl.ndarray((64, 32), nl.float32)
                nisa.dma_copy(tile, x)
                bits = tile.view(nl.uint16)
                odd = nl.ndarray((64, 32), nl.uint16)
                nisa.tensor_copy(odd, bits[:, 1:64:2])
                out = nl.ndarray((64, 32), nl.uint16, buffer=nl.shared_hbm)
                nisa.dma_copy(out, odd)
                return out
        """,
            "--arg",
            "x=fp32[64,32]",
        )
        (copy,) = found.named("tensor_copy")
        instance, pattern, offset = found.operand(copy, "src")
        self.assertEqual((instance["dtype"], instance["shape"], instance["address"]), ("u16", [64, 64], 0))
        self.assertEqual(found.instances[instance["parent"]]["name"], "tile")
        self.assertEqual(found.header["tensors"][instance["view_of"]]["name"], "tile")
        self.assertEqual((pattern, offset), ([[64, 64], [2, 32]], 1))

    def test_addresses_are_as_asked(self):
        found = self.trace(
            """
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x):
                tile = nl.ndarray((32, 16), nl.float32, address=(64, 4096), name="placed")
                nisa.dma_copy(tile, x)
                total = nl.ndarray((16, 16), nl.float32, buffer=nl.psum, address=(0, 3 * 2048))
                nisa.nc_matmul(total, tile, tile)
                out = nl.ndarray((32, 16), nl.float32, buffer=nl.shared_hbm)
                nisa.dma_copy(out, tile)
                return out
        """,
            "--arg",
            "x=fp32[32,16]",
        )
        placed = {i["name"]: (i["address"], i["partition"]) for i in found.instances}
        self.assertEqual((placed["placed"], placed["total"]), ((4096, 64), (6144, 0)))

    def test_attributes_that_cost(self):
        found = self.trace(
            """
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x, rows):
                index = nl.ndarray((16, 1), nl.uint32)
                nisa.dma_copy(index, rows)
                tile = nl.ndarray((16, 32), nl.bfloat16)
                nisa.dma_copy(tile, x.ap([[32, 16], [1, 32]], vector_offset=index), dge_mode=nisa.dge_mode.swdge)
                across = nl.ndarray((32, 16), nl.bfloat16)
                nisa.dma_transpose(across, tile)
                total = nl.ndarray((32, 1), nl.float32)
                nisa.memset(total, 0.0)
                nisa.tensor_reduce(total, nl.add, across, axis=1)
                wide = nl.ndarray((32, 8), nl.float32)
                nisa.tensor_scalar(wide, total.broadcast(1, 8) if False else across[:, 0:8], nl.multiply, total)
                out = nl.ndarray((32, 8), nl.float32, buffer=nl.shared_hbm)
                nisa.dma_copy(out, wide)
                return out
        """,
            "--arg",
            "x=bf16[64,32]",
            "--arg",
            "rows=u32[16,1]",
        )
        gather = found.named("dma_copy")[1]
        self.assertEqual(gather[0]["operands"], ["dst", "src", "index"])
        self.assertEqual(gather[0]["attributes"], {"transpose": False, "indirect": "src", "dge": "swdge"})
        self.assertTrue(found.named("dma_copy")[2][0]["attributes"]["transpose"])
        self.assertEqual(found.named("memset")[0][0]["attributes"], {"zero": True})
        self.assertEqual(found.named("tensor_reduce")[0][0]["attributes"], {"op": "add", "axes": 16})
        scaled = found.named("tensor_scalar")[0]
        self.assertEqual(scaled[0]["operands"], ["dst", "src", "scalar0"])
        self.assertEqual(found.operand(scaled, "src")[1], [[16, 32], [1, 8]])

    def test_broadcast_operands_have_stride_0(self):
        found = self.trace(
            """
            import nki.isa as nisa
            import nki.language as nl

            def kernel(x):
                tile = nl.ndarray((64, 8), nl.float32)
                nisa.dma_copy(tile, x)
                wide = nl.ndarray((64, 5, 8), nl.float32)
                nisa.tensor_copy(wide, tile.expand_dim(1).broadcast(1, 5))
                out = nl.ndarray((64, 5, 8), nl.float32, buffer=nl.shared_hbm)
                nisa.dma_copy(out, wide)
                return out
        """,
            "--arg",
            "x=fp32[64,8]",
        )
        self.assertEqual(found.operand(found.named("tensor_copy")[0], "src")[1], [[8, 64], [0, 5], [1, 8]])

    def test_lines_are_those_of_the_users_helper(self):
        self.file(
            """
            import nki.isa as nisa
            import nki.language as nl

            def load(x):
                tile = nl.ndarray(x.shape, x.dtype)
                nisa.dma_copy(tile, x)
                return tile
        """,
            "helper.py",
        )
        found = self.trace(
            """
            import nki.isa as nisa
            import nki.language as nl
            from helper import load

            def kernel(x):
                tile = load(x)
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                nisa.dma_copy(out, nl.add(tile, 1.0))
                return out
        """,
            "--arg",
            "x=fp32[64,8]",
        )
        places = [(found.header["files"][f], line, name) for _, (f, line, name), _ in found.instructions]
        self.assertEqual(places, [("helper.py", 7, "load"), ("kernel.py", 9, "kernel"), ("kernel.py", 9, "kernel")])


class Size(harness.Folder):
    def test_a_large_kernel_is_small_and_values_change_nothing(self):
        without = self.trace(_MATMUL, *_ARGUMENTS)
        self.assertEqual(
            self.run_command("kernel.py:kernel", *_ARGUMENTS, "--values", "--trace", "v.trace").returncode, 0
        )
        with_values = harness.TraceFile(os.path.join(self.folder, "v.trace"))
        self.assertEqual(without.header, with_values.header)
        self.assertEqual(without.instructions, with_values.instructions)
        self.assertLess(len(without.header["patterns"]), 8)
        self.assertLess(len(without.header["operations"]), 8)
        self.assertEqual(math.prod(without.instances[0]["shape"]), 384 * 256)


if __name__ == "__main__":
    unittest.main()
