"""The element types of a NeuronCore.

A `DType` is a `str` with its name in the documentation (`nl.bfloat16 == "bfloat16"`), because
kernels compare, print and look up types by name. Memory holds raw bits. `raw` is the NumPy type of
the bits, and `values.py` converts between bits and numbers.

Sources: the tables of supported types in the public nki.language and nki.isa documentation. The
packed types hold four elements: float8 in four bytes, float4 in two.
"""

from __future__ import annotations

import numpy as np


class DType(str):
    """An element type. `trace` is its name in trace files, and `itemsize` its size in bytes."""

    __slots__ = ("trace", "itemsize", "raw", "kind", "mantissa", "bias", "infinite")

    def __new__(cls, name, trace, raw, kind, mantissa=0, bias=0, infinite=True):
        self = super().__new__(cls, name)
        self.trace = trace
        self.raw = np.dtype(raw)
        self.itemsize = self.raw.itemsize
        self.kind = kind  # "float", "int" or "packed"
        self.mantissa = mantissa  # bits after the leading one
        self.bias = bias
        self.infinite = infinite  # whether the largest exponent is reserved for infinities and NaN
        return self

    __hash__ = str.__hash__

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, str):
            return str.__eq__(self, other)
        return _by_numpy(other) is self

    def __ne__(self, other):
        return not self == other

    @property
    def name(self) -> str:
        return str(self)

    @property
    def integer(self) -> bool:
        return self.kind == "int"

    @property
    def float(self) -> bool:
        return self.kind == "float"

    @property
    def packed(self) -> bool:
        return self.kind == "packed"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return find, (str(self),)


bool_ = DType("bool", "bool", np.uint8, "int")
int8 = DType("int8", "i8", np.int8, "int")
int16 = DType("int16", "i16", np.int16, "int")
int32 = DType("int32", "i32", np.int32, "int")
int64 = DType("int64", "i64", np.int64, "int")
uint8 = DType("uint8", "u8", np.uint8, "int")
uint16 = DType("uint16", "u16", np.uint16, "int")
uint32 = DType("uint32", "u32", np.uint32, "int")
uint64 = DType("uint64", "u64", np.uint64, "int")
float16 = DType("float16", "fp16", np.float16, "float", 10, 15)
float32 = DType("float32", "fp32", np.float32, "float", 23, 127)
bfloat16 = DType("bfloat16", "bf16", np.uint16, "float", 7, 127)
tfloat32 = DType("tfloat32", "tf32", np.float32, "float", 10, 127)
float8_e4m3 = DType("float8_e4m3", "fp8e4", np.uint8, "float", 3, 7)
float8_e4m3fn = DType("float8_e4m3fn", "fp8e4", np.uint8, "float", 3, 7, infinite=False)
float8_e5m2 = DType("float8_e5m2", "fp8e5", np.uint8, "float", 2, 15)
float8_e8m0fnu = DType("float8_e8m0fnu", "fp8e8", np.uint8, "float", 0, 127)
float8_e4m3fn_x4 = DType("float8_e4m3fn_x4", "mxfp8e4x4", np.uint32, "packed")
float8_e5m2_x4 = DType("float8_e5m2_x4", "mxfp8e5x4", np.uint32, "packed")
float4_e2m1fn_x4 = DType("float4_e2m1fn_x4", "mxfp4x4", np.uint16, "packed")

ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, bfloat16, tfloat32, float8_e4m3,
    float8_e4m3fn, float8_e5m2, float8_e8m0fnu, float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4,
)  # fmt: skip
PACKED_ELEMENT = {float8_e4m3fn_x4: float8_e4m3fn, float8_e5m2_x4: float8_e5m2}

# Short names for command lines.
_ALIASES = {
    "bf16": bfloat16, "fp16": float16, "fp32": float32, "tf32": tfloat32, "i8": int8, "i16": int16, "i32": int32,
    "i64": int64, "u8": uint8, "u16": uint16, "u32": uint32, "u64": uint64, "fp8": float8_e4m3, "fp8e4": float8_e4m3,
    "fp8e5": float8_e5m2, "fp8e4fn": float8_e4m3fn, "bool_": bool_, "float8e4": float8_e4m3,
    "float8e5": float8_e5m2,
}  # fmt: skip
_NAMES = {**{str(d): d for d in ALL}, **_ALIASES}
_NUMPY = {np.dtype(d.raw): d for d in (int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32)}
_NUMPY[np.dtype(bool)] = bool_


def _by_numpy(value):
    if value is None or isinstance(value, (int, float, tuple, list)):
        return None
    try:
        dtype = np.dtype(value)
    except TypeError:
        return _NAMES.get(getattr(value, "__name__", None)) or _NAMES.get(str(value).rpartition(".")[2])
    return _NUMPY.get(dtype) or _NAMES.get(dtype.name)  # ml_dtypes registers its own names


def promoted(a: DType, b: DType) -> DType:
    """Returns the result type for operands of these types, as in the documentation's table "NKI
    Type Promotion".
    """
    if a is b or a.packed or b.packed:
        return a
    if a.float and b.float:
        # The types need a wider one, because one has more range and the other more precision.
        if a.itemsize == b.itemsize and a.itemsize < 4:
            return bfloat16 if a.itemsize == 1 else float32
        return max(a, b, key=lambda d: (d.itemsize, d.mantissa))
    if a.float or b.float:
        return a if a.float else b
    if a.raw.kind == b.raw.kind:
        return max(a, b, key=lambda d: d.itemsize)
    signed, unsigned = (a, b) if a.raw.kind == "i" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return {1: int16, 2: int32}.get(unsigned.itemsize, float32)


def find(value) -> DType | None:
    """Returns the type that `value` names: a name, a DType or a NumPy type. None: it names no type.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return _NAMES.get(value) or _NAMES.get(value.rpartition(".")[2])  # "torch.bfloat16"
    return _by_numpy(value)
