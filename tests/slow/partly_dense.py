"""A compressed model folder of two factors per matrix in which the up matrices are dense again."""

import json
import pathlib
import struct


def read_tensors(path: pathlib.Path) -> dict[str, tuple[dict, bytes]]:
    """Returns the dtype and shape, and the bytes, of each tensor of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry.pop("data_offsets"))
        tensors[name] = (entry, data[begin:end])
    return tensors


def write_tensors(path: pathlib.Path, tensors: dict[str, tuple[dict, bytes]]) -> None:
    header, end = {}, 0
    for name, (entry, data) in tensors.items():
        header[name] = entry | {"data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def make_up_dense(folder: pathlib.Path, dense: pathlib.Path) -> None:
    """Replaces the factors of every up matrix of `folder` by the matrix that the model folder `dense` has."""
    original = read_tensors(dense / "model.safetensors")
    tensors = {}
    for name, tensor in read_tensors(folder / "model.safetensors").items():
        if "mlp.up_v_proj" in name:
            whole = name.replace("up_v_proj", "up_proj")
            tensors[whole] = original[whole]
        elif "mlp.up_u_proj" not in name:
            tensors[name] = tensor
    write_tensors(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    for layer in config["neuronmm_compression"]["ranks"]:
        layer["up"] = 0
    (folder / "config.json").write_text(json.dumps(config, indent=2))
