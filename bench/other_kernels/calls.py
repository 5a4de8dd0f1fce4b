"""Lists the kernels that are predicted, and how each is called.

docs/measurements/predictions_other.md has the rule for choosing them.

No measured time is read here. A call is (id, family, device, kernel for `neuronmm nki`, its --arg
and --kwarg options).
"""

from __future__ import annotations

import contextlib
import csv
import glob
import hashlib
import importlib.util
import inspect
import io
import os
import re
import runpy
import sys
import types

import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), HERE]


class KernelCalled(Exception):
    """Raised when a kernel is called outside another kernel. It keeps the launch, and nothing runs.
    """

    def __init__(self, kernel, args, named):
        self.kernel, self.args, self.named = kernel, args, named


def rows(moe, nkilib, kda, accelopt):
    """Yields (id, family, device, function that returns the kernel and its options) for every row.
    """
    sys.path.append(nkilib)
    yield from _moe_rows(os.path.join(moe, "kernels"))
    yield from _kda_rows(kda, accelopt)


def _moe_rows(root):
    """Yields the kernels of KevGomes1403/nki-moe-megakernel at bcf4f30. Its bench scripts say how
    each version is called.
    """
    fused, attention = os.path.join(root, "moe_fused_tkg"), os.path.join(root, "attn_tkg", "agents")
    for version in _names(os.path.join(fused, "bench", "bench_all_moe.py"), r'^    \("(v\w+)"'):
        yield f"moe_fused/{version}", "moe_fused", "trn2", lambda v=version: _call_of_version(fused, v)
    for script in _names(os.path.join(attention, "bench_all.py"), r'^    \("\w+",\s*"(bench_\w+\.py)"'):
        version = script.removeprefix("bench_").removesuffix(".py")
        yield f"attn_tkg/{version}", "attn_tkg", "trn2", lambda s=script: _call_of_script(os.path.join(attention, s))
    quantized = os.path.join(fused, "quantized")
    for version, device in [(v, "trn2") for v in QUANTIZED] + [(v, "trn3") for v in ("v12i", "v14a", "v14b")]:
        yield (f"moe_fp8/{version}@{device}", "moe_fp8", device,
               lambda v=version: (os.path.join(quantized, f"{v}.py") + ":qwen3_moe_fused_tkg[2]", _options(FP8)))  # fmt: skip
    for path in sorted(glob.glob(os.path.join(root, "moe_tkg", "agents", "v[567]*.py"))):
        version = os.path.basename(path).split("_")[0]
        if "v6b_1" not in path:
            yield (f"moe_tkg/{version}", "moe_tkg", "trn2",
                   lambda p=path, v=version: (f"{p}:nki_moe_{v}", _options(SPARSE)))  # fmt: skip
    prefill = os.path.join(root, "attn_cte")
    for version in PREFILL:
        path = os.path.join(prefill, "agents" if version != "v0" else "", f"{version}_qwen3_attn_cte_fused.py".removeprefix("v0_"))
        yield f"attn_cte/{version}", "attn_cte", "trn2", lambda p=path, v=version: _prefill_call(p, v)


QUANTIZED = ["v5", "v6a", "v6b", "v6c", "v7", "v11c", "v12d", "v12g", "v12h", "v12i", "v12k"]
FP8 = {"inp": "bf16[1,1,2048]", "gamma": "bf16[1,2048]", "router_w": "bf16[2048,128]", "gate_up_w": "i8[128,2048,384]",
       "gate_up_scales": "fp32[128,384]", "down_w": "i8[128,192,2048]", "down_scales": "fp32[128,2048]"}  # fmt: skip
SPARSE = {"hidden_states": "bf16[1,2048]", "gate_up_weights": "bf16[128,2048,512]", "down_weights": "bf16[128,256,2048]",
          "expert_indices": "i32[1,8]", "routing_weights_k": "fp32[1,8]"}  # fmt: skip
# The versions and their launch grids.
PREFILL = {"v0": "", "v4a": "", "v5a": "", "v5b": "", "v6a": "", "v6bcd": "", "v7ab": "[2]", "v8a": "[2]"}


def _prefill_call(path, version):
    sizes = {"hidden_states": "bf16[1,640,2048]", "Wq": "bf16[1024,2048]", "Wk": "bf16[512,2048]", "Wv": "bf16[512,2048]",
             "q_norm_weight": "bf16[128]", "k_norm_weight": "bf16[128]", "cos": "bf16[640,128]", "sin": "bf16[640,128]"}  # fmt: skip
    if version == "v0":
        sizes["attn_mask"] = "fp32[640,640]"
    if version not in ("v0", "v4a", "v5a"):
        sizes.update(Wq="bf16[2048,1024]", Wk="bf16[2048,512]", Wv="bf16[2048,512]")
    return f"{path}:qwen3_attn_cte_fused{PREFILL[version]}", _options(sizes)


def _options(sizes):
    return [word for name, size in sizes.items() for word in ("--arg", f"{name}={size}")]


def _names(path, pattern):
    with open(path) as text:
        return re.findall(pattern, text.read(), re.M)


@contextlib.contextmanager
def _intercepted_calls():
    """Inside the block a call of a kernel raises KernelCalled, and torch has only shapes."""
    import nki
    from nki import missing

    def call(kernel, *args, **named):
        raise KernelCalled(kernel, args, named)

    missing.install()
    shapes.install()
    benchmark = types.ModuleType("benchmark")
    benchmark.wrap_benchmark = lambda kernel, **settings: kernel
    sys.modules["benchmark"] = benchmark
    plain, nki.Kernel.__call__ = nki.Kernel.__call__, call
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        nki.Kernel.__call__ = plain


def _as_command(launch):
    function = launch.kernel.func
    names = list(inspect.signature(function).parameters)
    options = []
    for name, value in [*zip(names, launch.args), *launch.named.items()]:
        is_tensor = isinstance(value, shapes.Tensor)
        options += ["--arg" if is_tensor else "--kwarg", f"{name}={value.argument() if is_tensor else repr(value)}"]
    grid = f"[{','.join(map(str, launch.kernel.grid))}]" if launch.kernel.grid else ""
    return f"{function.__code__.co_filename}:{function.__name__}{grid}", options


def _call_of_version(fused, version):
    """Calls a version as bench_runner.py does, with padded weights that `run` cuts for the version.
    """
    with _intercepted_calls():
        spec = importlib.util.spec_from_file_location("kernel_file", os.path.join(fused, "versions", f"kernel_{version}.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sizes = [(1, 1, 2048), (1, 2048), (2048, 128), (128, 2048, 2, 256), (128, 256, 2048)]
        try:
            module.run(*[shapes.Tensor(size, "bfloat16") for size in sizes])
        except KernelCalled as launch:
            return _as_command(launch)
    raise LookupError("run() calls no kernel")


def _call_of_script(script):
    sys.path.insert(0, os.path.dirname(script))
    with _intercepted_calls():
        try:
            runpy.run_path(script)
        except KernelCalled as launch:
            return _as_command(launch)
    raise LookupError("the bench script calls no kernel")


def _kda_rows(kda, accelopt):
    """Yields kernels of Jerry2423/kda-for-trainium, which measured NKIBench's kernels again, and
    some rewrites of each. The inputs are those of NKIBench.
    """
    bench = os.path.join(accelopt, "NKIBench")
    with open(os.path.join(accelopt, "experiments", "full_complete_local", "candidates.csv")) as text:
        cases = {row["problem"]: row for row in csv.DictReader(text)}
    for folder in sorted(glob.glob(os.path.join(kda, "workspaces", "*", ""))):
        problem = os.path.basename(folder[:-1])
        case = cases[problem]
        reference = os.path.join(bench, "reference", os.path.basename(case["task"]))
        first = os.path.join(bench, "kernels", os.path.basename(case["kernel"]))
        texts = glob.glob(os.path.join(folder, "runs", "*.py"))
        rewrites = [path for path in texts if re.search(r"^def kernel\(", open(path).read(), re.M)]
        for path in [first, *sorted(rewrites, key=_name_hash)[:REWRITES]]:
            name = "baseline" if path == first else os.path.basename(path)[:-3]
            yield (f"kda/{problem}/{name}", "kda", "trn2",
                   lambda p=path, r=reference: (f"{p}:kernel", _tiled_inputs(p, r)))  # fmt: skip


REWRITES = 3  # per operator, drawn by their names


def _name_hash(path):
    return hashlib.sha256(os.path.basename(path).encode()).digest()


_INPUTS: dict[str, list] = {}


def _tiled_inputs(path, reference):
    """Returns the options for NKIBench's inputs. Numbers that are no arrays are passed as values.
    """
    if reference not in _INPUTS:
        module = runpy.run_path(reference)
        _INPUTS[reference] = [_option_of(a) for a in module["transform_to_nki_inputs"](module["get_inputs"]())]
    with open(path) as text:
        names = re.search(r"^def kernel\(([^)]*)\)", text.read(), re.M)[1].split(",")
    return [word for name, (option, value) in zip(names, _INPUTS[reference]) for word in (option, f"{name.strip()}={value}")]


def _option_of(value):
    if not hasattr(value, "shape") or not value.shape:
        return "--kwarg", repr(float(value))
    return "--arg", f"{'fp32' if value.dtype.kind == 'f' else 'i32'}[{','.join(map(str, value.shape))}]"
