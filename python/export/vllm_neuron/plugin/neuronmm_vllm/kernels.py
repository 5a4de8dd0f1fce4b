"""Loads the fused kernels of this export. They compute prefills of exactly the tokens that they
were emitted for.
"""

import functools
import importlib.util
import json
import pathlib


class FusedMLP:
    """Computes y = (silu(x·U·V) * (x·U·V))·U·V in one kernel. The two cores of a pair split its
    rows, because the graph around it has logical cores of two (LNC 2).
    """

    def __init__(self, rows, cores, kernel):
        from libtorch_neuronx_lite.nki.nki_hop import wrap_nki

        self.rows, self.run = rows, wrap_nki(kernel)[cores]  # wrap_nki(kernel[2]) would lose the grid


@functools.cache
def kernel_at(path, function, rows, cores):
    spec = importlib.util.spec_from_file_location(f"neuronmm_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return FusedMLP(rows, cores, getattr(module, function))


def kernel_of(folder, mlp):
    """Returns the kernel for an MLP of these sizes, or None if the export has none."""
    ranks = set(mlp.ranks.values())
    if len(ranks) != 1 or 0 in ranks:
        return None
    sizes = {"K": mlp.gate_v_proj.in_features, "r": ranks.pop(), "N": mlp.gate_u_proj.out_features}
    for entry in json.loads((pathlib.Path(folder) / "kernels.json").read_text()):
        if entry["use"] == "prefill" and sizes.items() <= entry["shape"].items():
            path = pathlib.Path(folder) / entry["file"]
            return kernel_at(path, entry["function"], entry["shape"]["M"], entry["cores"])
    return None
