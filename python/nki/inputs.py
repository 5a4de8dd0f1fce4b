"""The numbers of a kernel's arguments: random ones, ones by rule, and those of files.

    x=bf16[128,512]            normal numbers
    x=bf16[128,512]:zeros      a rule: normal, zeros or arange
    x=bf16[128,512]:normal:7   normal numbers with a seed of their own
    x=@file.npy                the array of a file, with its type and shape
    x=@file.npz:name           one of several arrays
    x=@file.safetensors:name
    x=bf16@file.npy            the array, rounded to another type
"""

from __future__ import annotations

import json
import math
import os
import zipfile

import numpy as np

from .tracer import dtypes, values

RULES = ("normal", "zeros", "arange")
_MOST_HEADER_BYTES = 100 << 20  # of a safetensors file; the limit of that format's own library
_SAFETENSORS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
                "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32", "I64": "int64",
                "BOOL": "bool"}  # fmt: skip


class InputError(Exception):
    """A file or rule gives no numbers. The text says why."""


def by_rule(rule: str, dtype, shape: tuple, scale: float | None, generator, first: bool) -> np.ndarray:
    """Returns numbers that are rounded to the type.

    `normal` are normal numbers of deviation `scale`, or whole numbers below it. `arange` counts the
    elements in steps of `scale`.
    """
    if rule == "zeros":
        numbers = np.zeros(shape)
    elif rule == "arange":
        numbers = np.arange(math.prod(shape)).reshape(shape) * (scale if scale is not None else 1)
    elif dtype.integer:
        return generator.integers(0, max(2, int(scale or 2)), shape).astype(dtype.raw)
    elif dtype.packed:
        return generator.integers(0, 2**31, shape).astype(dtype.raw)
    else:
        deviation = scale if scale is not None else 1.0 if first else 1 / math.sqrt(shape[0])
        numbers = generator.standard_normal(shape) * deviation
    if dtype.float:
        return values.rounded(numbers.astype(np.float32), dtype)
    return values.encode(np.rint(numbers).astype(np.int64), dtype)


def read_file(text: str, dtype: dtypes.DType | None) -> tuple[dtypes.DType, np.ndarray]:
    """Returns the type and the numbers of FILE or FILE:NAME: float32, or whole numbers. With
    `dtype` the numbers are rounded to that type.
    """
    path, name = _path_and_name(text)
    try:
        found, numbers = _safetensors(path, name) if path.endswith(".safetensors") else _numpy(path, name, dtype)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if numbers.ndim == 0 or numbers.size == 0:
        raise InputError(f"{text}: expected an array with elements, found the shape {list(numbers.shape)}")
    if dtype is None or dtype is found:
        return found, numbers
    if dtype.packed or found.packed:
        raise InputError(f"{text}: holds {found}, which does not become {dtype}")
    return dtype, values.rounded(numbers, dtype) if dtype.float else values.encode(numbers, dtype)


def _path_and_name(text):
    for ending in (".npy", ".npz", ".safetensors"):
        at = text.find(ending)
        rest = text[at + len(ending) :]
        if at > 0 and (not rest or rest.startswith(":")):
            return text[: at + len(ending)], rest[1:]
    raise InputError(f"expected FILE.npy, FILE.npz:NAME or FILE.safetensors:NAME behind '@', found {text!r}")


def _only(path, names, name):
    if name:
        if name not in names:
            raise InputError(f"{path}: has no array {name!r}, only {', '.join(sorted(names)[:20]) or 'none'}")
        return name
    if len(names) != 1:
        raise InputError(f"{path}: has {len(names)} arrays; name one of them, as {path}:NAME")
    return next(iter(names))


def _numpy(path, name, dtype):
    try:
        single = path.endswith(".npy")
        # NumPy knows the format by the first bytes and not by the name.
        array = np.load(path, mmap_mode="r" if single else None, allow_pickle=False)
        if isinstance(array, np.ndarray) != single:
            raise InputError(f"{path}: holds {'several arrays' if single else 'one array'}; rename it to {'.npz' if single else '.npy'}")
        if not single:
            with array as archive:
                array = archive[_only(path, archive.files, name)]
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: is no array of NumPy: {error}") from None
    array = np.asarray(array)
    if array.dtype.kind == "V":  # a type that NumPy does not know, as ml_dtypes writes bfloat16
        if dtype is None or array.dtype.itemsize != dtype.itemsize:
            raise InputError(f"{path}: holds elements of {array.dtype.itemsize} bytes of an unknown type; say which, as x=bf16@{path}")
        return dtype, _numbers(np.ascontiguousarray(array).view(dtype.raw), dtype)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{path}: expected numbers, found {array.dtype}")
    found = dtypes.find(array.dtype) or (dtypes.float32 if array.dtype.kind == "f" else dtypes.int32)
    return found, array.astype(np.float32) if found.float else values.encode(array, found)


def _numbers(raw, dtype):
    return values.decode(raw, dtype) if dtype.float else raw.copy()


def _safetensors(path, name):
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MOST_HEADER_BYTES, size - 8):
            raise InputError(f"{path}: is no safetensors file: its header would take {length} of {size} bytes")
        try:
            header = json.loads(file.read(length))
            tensors = {key: tensor for key, tensor in header.items() if key != "__metadata__"}
            tensor = tensors[_only(path, tensors, name)]
            kind, shape, (begin, end) = tensor["dtype"], [int(n) for n in tensor["shape"]], map(int, tensor["data_offsets"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}: the header is damaged: {type(error).__name__}: {error}") from None
        dtype = dtypes.find(_SAFETENSORS.get(kind, ""))
        if dtype is None:
            raise InputError(f"{path}: expected one of the types {', '.join(_SAFETENSORS)}, found {kind}")
        count = math.prod(shape)
        if min(shape, default=1) < 0 or begin < 0 or end - begin != count * dtype.itemsize or 8 + length + end > size:
            raise InputError(f"{path}: the tensor {name or 'in it'} of shape {shape} does not fit bytes {begin} to {end} of {size}")
        file.seek(8 + length + begin)
        raw = np.frombuffer(file.read(end - begin), dtype.raw).reshape(shape)
    return dtype, _numbers(raw, dtype)


def save(path: str, arrays: dict):
    """Writes the results of a kernel, by name, to FILE.npz, or a single one to FILE.npy. The file
    appears whole or not at all.
    """
    partial = f"{path}.part-{os.getpid()}"
    try:
        with open(partial, "wb") as file:
            if path.endswith(".npy"):
                np.save(file, next(iter(arrays.values())))
            else:
                np.savez(file, **arrays)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
