"""Reads and writes safetensors files with NumPy, for the scripts of this folder."""

import json
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("this script needs NumPy; install Debian's python3-numpy or PyPI's numpy")

# The types that are read and written. NumPy has no bf16, so its bits are whole numbers.
TYPES = {"F32": np.dtype("<f4"), "BF16": np.dtype("<u2")}


def read_f32(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the tensors of a file by name, and ends the program if one has another type than F32."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: {name}: expected F32, found {entry['dtype']}")
        first, last = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin + first : begin + last], TYPES["F32"]).reshape(entry["shape"])
    return tensors


def write(path: pathlib.Path, dtype: str, tensors: dict[str, np.ndarray]) -> None:
    """Writes tensors that all have the type `dtype`."""
    size = TYPES[dtype].itemsize
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + size * tensor.size
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.astype(TYPES[dtype]).tobytes())
