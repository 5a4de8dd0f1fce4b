"""Runs kernels in this process and reads trace files independently of the product's reader."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np
from nki import run, user_modules
from nki.launch import Kernel, ArgumentSpec, check_result, execute, tensors_of
from nki.tracer import device, dtypes, values
from nki.tracer.session import Session
from nki.tracer.trace import Trace

SEED = 20261123


def argument(dtype: str, numbers) -> ArgumentSpec:
    """Returns a tensor argument with `numbers`, rounded to its type."""
    kind = dtypes.find(dtype)
    numbers = np.asarray(numbers)
    data = values.rounded(numbers.astype(np.float32), kind) if kind.float else numbers.astype(kind.raw)
    return ArgumentSpec(kind, numbers.shape, data)


def session(target: str = "trn2", with_values: bool = True, **options) -> Session:
    return Session(device.DEVICES[target], Trace(), with_values, **options)


def outputs(kernel, *args, target: str = "trn2", grid: tuple = (), **kwargs) -> list[np.ndarray]:
    """Returns a kernel's results, in order, as float32 (or integers)."""
    s = session(target, grid=grid)
    returned = execute(s, kernel.func if isinstance(kernel, Kernel) else kernel, args, kwargs)
    views = tensors_of(returned)
    for view in views:
        check_result(s, view)
    return [s.read(view) for view in views]


def output(kernel, *args, **options) -> np.ndarray:
    (only,) = outputs(kernel, *args, **options)
    return only


class TraceFile:
    """A trace file, read by its specification (docs/reference/nki_trace.md) alone."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            data = file.read()
        magic, version, size = struct.unpack_from("<8sII", data)
        assert magic == b"NMMTRACE" and version == 1, (magic, version)
        self.header = json.loads(data[16 : 16 + size])
        (length,) = struct.unpack_from("<Q", data, 16 + size)
        begin = 24 + size
        assert begin + length == len(data), "the file ends with its records"
        self.instructions, self.instances, self.released, self.loops = [], [], [], []
        at = begin
        while at < len(data):
            kind, n, a, b, c = struct.unpack_from("<HHIII", data, at)
            at += 16
            if kind == 0:
                operands = [struct.unpack_from("<IIq", data, at + 16 * i) for i in range(n)]
                at += 16 * n
                self.instructions.append((self.header["operations"][a], self.header["sources"][b], operands))
            elif kind == 1:
                address, parent = struct.unpack_from("<qq", data, at)
                at += 16
                self.instances.append(
                    {**self.header["tensors"][a], "address": address, "parent": parent, "partition": c}
                )
            elif kind == 2:
                self.released.append(a)
            else:
                assert kind in (3, 4, 5), kind
                self.loops.append((kind, self.header["loops"][a]))
            assert c == 0 or kind == 1, (kind, c)

    def operand(self, instruction, name: str):
        """Returns the instance, pattern and offset of an instruction's operand."""
        operation, _, operands = instruction
        instance, pattern, offset = operands[operation["operands"].index(name)]
        return self.instances[instance], self.header["patterns"][pattern], offset

    def elements(self, instruction, name: str) -> list[int]:
        """Returns the numbers of the elements that an operand touches, in order."""
        _, pattern, offset = self.operand(instruction, name)
        found = np.array([offset])
        for stride, count in pattern:
            found = (found[:, None] + np.arange(count) * stride).reshape(-1)
        return found.tolist()

    def named(self, name: str) -> list:
        return [i for i in self.instructions if i[0]["name"] == name]


class Folder(unittest.TestCase):
    """Tests that need a temporary folder of files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, text: str, name: str = "kernel.py") -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return path

    def run_command(self, *argv: str) -> subprocess.CompletedProcess:
        """Runs `python -m nki.run` in the folder."""
        return subprocess.run(
            [sys.executable, "-m", "nki.run", *argv], cwd=self.folder, capture_output=True, text=True, timeout=300
        )

    def run_here(self, *argv: str) -> subprocess.CompletedProcess:
        """Runs the same command in this process, which is faster for many short runs."""
        before, path, modules = os.getcwd(), list(sys.path), set(sys.modules)
        out, err = io.StringIO(), io.StringIO()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = run.main(list(argv))
        finally:
            os.chdir(before)
            sys.path[:] = path
            user_modules.folders.clear()
            for name in set(sys.modules) - modules:
                if _is_of_a_kernel(sys.modules[name], self.folder):
                    del sys.modules[name]
            importlib.invalidate_caches()
        return subprocess.CompletedProcess(argv, status, out.getvalue(), err.getvalue())

    def trace(self, text: str, *argv: str) -> TraceFile:
        """Returns the trace of the function `kernel` of a file."""
        self.file(text)
        done = self.run_here("kernel.py:kernel", *argv, "--trace", "t.trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        return TraceFile(os.path.join(self.folder, "t.trace"))


def _is_of_a_kernel(module, folder: str) -> bool:
    """Returns whether the run of a kernel has loaded the module: from the kernel's folder, or as the
    stand-in of a package that is missing.
    """
    file = getattr(getattr(module, "__spec__", None), "origin", None)
    return file is None or file.startswith(folder)
