"""Runs a kernel in a session of its own and reads its trace file by the format's documentation."""

import json
import os
import struct
import tempfile

import numpy as np
from nki import launch
from nki.tracer import device, dtypes
from nki.tracer.session import Session
from nki.tracer.trace import Trace

import neuronxcc.nki as nki


class Run:
    """A run: `outputs` are arrays, `instructions` tuples (name, engine, attributes, {operand: (tensor, pattern, offset)})."""

    def __init__(self, kernel, *arguments, values=True, on="trn2", grid=(), **named):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernel.trace")
            trace = Trace(path)
            self.session = Session(device.DEVICES[on], trace, values, grid)
            function = nki.function_to_trace(kernel)
            given = [_argument(a, values) for a in arguments]
            returned = launch.execute(
                self.session, function, tuple(given), {k: _argument(v, values) for k, v in named.items()}
            )
            found = launch.tensors_of(returned)
            self.outputs = [launch.results(self.session, t) for t in found] if values else found
            trace.write(trace.header(kernel="k", file="f", dialect=self.session.dialect, device=on))
            with open(path, "rb") as file:
                self.header, self.instructions = read(file.read())
        self.notes = self.session.notes

    @property
    def output(self):
        assert len(self.outputs) == 1
        return self.outputs[0]

    def names(self):
        return [name for name, *_ in self.instructions]


def bfloat16(array):
    """Returns an argument of type bfloat16."""
    return launch.ArgumentSpec(dtypes.bfloat16, array.shape, np.asarray(array, np.float32))


def _argument(value, values):
    if isinstance(value, np.ndarray) and not values:
        return launch.ArgumentSpec(dtypes.find(value.dtype), value.shape)
    return value


def read(data):
    magic, version, size = struct.unpack_from("<8sII", data)
    assert (magic, version) == (b"NMMTRACE", 1)
    header = json.loads(data[16 : 16 + size])
    at, end = 24 + size, len(data)
    found = []
    while at < end:
        kind, count = struct.unpack_from("<HH", data, at)
        if kind == 0:
            operation = header["operations"][struct.unpack_from("<I", data, at + 4)[0]]
            operands = [struct.unpack_from("<IIq", data, at + 16 + 16 * i) for i in range(count)]
            views = {n: (t, header["patterns"][p], o) for n, (t, p, o) in zip(operation["operands"], operands)}
            source = header["sources"][struct.unpack_from("<I", data, at + 8)[0]]
            found.append(
                (operation["name"], operation["engine"], {**operation["attributes"], "line": source[1]}, views)
            )
            at += 16 + 16 * count
        else:
            at += 32 if kind == 1 else 16
    assert at == end
    return header, found


def random(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(test, found, expected, tolerance=1e-5):
    expected = np.asarray(expected, np.float64)
    test.assertEqual(found.shape, expected.shape)
    test.assertLessEqual(np.abs(found - expected).max(), tolerance * max(1.0, np.abs(expected).max()))
