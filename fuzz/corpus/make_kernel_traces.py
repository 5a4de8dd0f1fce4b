#!/usr/bin/env python3
"""Writes the seeds of fuzz_kernel_trace into the folder kernel_trace beside this file.

The format is described in docs/reference/nki_trace.md.
"""
import json
import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "kernel_trace"


class Trace:
    def __init__(self, dialect="nki", device="trn2"):
        self.header = {"kernel": "seed", "file": "k.py", "dialect": dialect, "device": device, "files": ["k.py"],
                       "sources": [], "tensors": [], "patterns": [], "operations": [], "loops": [], "outputs": []}
        self.records = b""
        self.instructions = self.instances = 0

    def number(self, table, value):
        if value not in self.header[table]:
            self.header[table].append(value)
        return self.header[table].index(value)

    def line(self, line):
        return self.number("sources", [0, line, "seed"])

    def tensor(self, name, memory, dtype, shape, role="none", line=1, address=-1, partition=0, parent=-1, **more):
        kind = self.number("tensors", {"name": name, "memory": memory, "dtype": dtype, "shape": shape, "role": role,
                                       "source": self.line(line), **more})
        self.records += struct.pack("<HHIIIqq", 1, 0, kind, self.line(line), partition, address, parent)
        self.instances += 1
        return self.instances - 1

    def run(self, name, engine, operands, line, **attributes):
        operation = self.number("operations", {"name": name, "engine": engine, "operands": [role for role, *_ in operands],
                                               "attributes": attributes})
        self.records += struct.pack("<HHIII", 0, len(operands), operation, self.line(line), 0)
        for _, tensor, axes, offset in operands:
            self.records += struct.pack("<IIq", tensor, self.number("patterns", axes), offset)
        self.instructions += 1

    def mark(self, kind, subject, line):
        self.records += struct.pack("<HHIII", kind, 0, subject, self.line(line), 0)

    def write(self, name):
        self.header["counts"] = {"instructions": self.instructions, "tensors": self.instances}
        header = json.dumps(self.header).encode()
        data = b"NMMTRACE" + struct.pack("<II", 1, len(header)) + header + struct.pack("<Q", len(self.records)) + self.records
        (FOLDER / name).write_bytes(data)


def matmul():
    t = Trace()
    x = t.tensor("x", "hbm", "bf16", [256, 128], "input")
    w = t.tensor("w", "hbm", "bf16", [256, 512], "input")
    y = t.tensor("y", "hbm", "bf16", [128, 512], "output")
    t.header["loops"].append({"name": "k", "kind": "affine", "count": 2, "source": 0})
    sums = t.tensor("sums", "psum", "fp32", [128, 512], line=3)
    t.mark(3, 0, 4)
    for k in range(2):
        t.mark(4, 0, 4)
        a = t.tensor("a", "sbuf", "bf16", [128, 128], line=5)
        b = t.tensor("b", "sbuf", "bf16", [128, 512], line=6)
        t.run("dma_copy", "dma", [("dst", a, [[128, 128], [1, 128]], 0), ("src", x, [[1, 16384]], k * 16384)], 7)
        t.run("dma_copy", "dma", [("dst", b, [[512, 128], [1, 512]], 0), ("src", w, [[1, 65536]], k * 65536)], 8)
        t.run("nc_matmul", "tensor", [("dst", sums, [[512, 128], [1, 512]], 0), ("stationary", a, [[128, 128], [1, 128]], 0),
                                      ("moving", b, [[512, 128], [1, 512]], 0)], 9, accumulate=k > 0)
        t.mark(2, a, 9)
    t.mark(5, 0, 4)
    out = t.tensor("out", "sbuf", "bf16", [128, 512], line=10)
    t.run("activation", "scalar", [("dst", out, [[512, 128], [1, 512]], 0), ("src", sums, [[512, 128], [1, 512]], 0)], 11, op="silu")
    t.run("dma_copy", "dma", [("dst", y, [[1, 65536]], 0), ("src", out, [[512, 128], [1, 512]], 0)], 12)
    t.write("matmul")


def views_and_addresses():
    t = Trace(device="trn3")
    x = t.tensor("x", "hbm", "fp8e4", [4, 32, 64], "input")
    scratch = t.tensor("scratch", "hbm", "fp32", [32, 64], "scratch")
    a = t.tensor("a", "sbuf", "fp32", [32, 64], address=128, partition=32)
    v = t.tensor("v", "sbuf", "u8", [32, 64], address=64, parent=a, view_of=2)
    b = t.tensor("b", "sbuf", "fp32", [32, 64])
    i = t.tensor("i", "sbuf", "i32", [32, 1])
    t.run("iota", "gpsimd", [("dst", i, [[1, 32]], 0)], 2)
    t.run("dma_copy", "dma", [("dst", v, [[64, 32], [2, 32]], 1), ("src", x, [[2048, 1], [64, 32], [1, 32]], 32), ("index", i, [[1, 32]], 0)],
          3, indirect="src", dge="swdge")
    t.run("tensor_tensor", "any", [("dst", b, [[64, 32], [-1, 64]], 63), ("src", a, [[64, 32], [1, 64]], 0), ("src1", i, [[1, 32], [0, 64]], 0)],
          4, op="add")
    t.run("dma_copy", "dma", [("dst", scratch, [[1, 64], [64, 32]], 0), ("src", b, [[64, 32], [1, 64]], 0)], 5, transpose=True)
    t.run("dma_copy", "dma", [("dst", b, [[64, 32], [1, 64]], 0), ("src", scratch, [[64, 32], [1, 64]], 0)], 6, accumulate="add")
    t.run("register_move", "sync", [], 7)
    t.write("views_and_addresses")


def overflow():
    t = Trace("neuronxcc")
    x = t.tensor("x", "hbm", "fp32", [128, 16384], "input")
    tiles = [t.tensor("tile", "sbuf", "fp32", [128, 16384], line=2) for _ in range(4)]
    whole = [[16384, 128], [1, 16384]]
    for tile in tiles:
        t.run("dma_copy", "dma", [("dst", tile, whole, 0), ("src", x, [[1, 2097152]], 0)], 3)
    for tile in tiles:
        t.run("tensor_scalar", "any", [("dst", tile, whole, 0), ("src", tile, whole, 0)], 4, op0="multiply", op1="add")
    t.write("overflow")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    matmul()
    views_and_addresses()
    overflow()
