"""Checks this export step by step and writes check_report.json, which can be sent to the project.
Nobody has run this script on a Trainium yet.

    python check_on_trainium.py                      runs every step that this machine can run
    python check_on_trainium.py --dense ORIGINAL     also times the model that was compressed

The script prints pass, fail or skip for each step. Steps that need a Trainium are skipped if there
is no /dev/neuron*. The exit status is 1 if a step fails, else 0.
"""

import argparse
import glob
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import platform
import sys
import time
import traceback
import zlib

try:
    import engine
    import run
    from common import HERE, KERNELS, MODEL, compare, installed, read_export, read_golden, require_writable
except ModuleNotFoundError as error:
    sys.exit(f"{error}: a file of this export is missing; copy the whole folder again, or export again")


class Skip(Exception):
    pass


def in_series(found, expected):
    """Returns whether a version belongs to a series: "0.6.1" belongs to "0.6"."""
    return found is not None and found.split("+")[0].split(".")[: len(expected.split("."))] == expected.split(".")


def is_changed(path, expected):
    if path.stat().st_size != expected["bytes"]:
        return True
    return "crc32" in expected and zlib.crc32(path.read_bytes()) != expected["crc32"]


def check_files(export, options):
    """Checks that every file is there, and that all files except weights are unchanged. The logits
    check the weights.
    """
    wrong = []
    for name, expected in export["files"].items():
        path = HERE / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif is_changed(path, expected):
            wrong.append(f"{name} is not as it was written")
    if wrong:
        raise RuntimeError(f"{'; '.join(wrong)}: copy the whole folder again, or export again")
    return {"files": len(export["files"])}


def check_versions(export, options):
    found = installed(engine.DISTRIBUTIONS)
    wrong = [f"{name} {found.get(name) or 'is not installed'}, expected {expected}"
             for name, expected in export["packages"].items() if not in_series(found.get(name), expected)]  # fmt: skip
    if wrong:
        raise RuntimeError(
            f"not those of SDK {export['sdk']}: {'; '.join(wrong)}: go into the environment of that release, or export "
            "again with --sdk for the one that is here"
        )
    return found


def resolve(name):
    """Returns what "module:Class.method" names. "module:Class<Other.method" is found beside Class, in
    the module that defines it.
    """
    name, _, beside = name.partition("<")
    module, _, path = name.partition(":")
    found = find(importlib.import_module(module), path)
    return find(sys.modules[found.__module__], beside) if beside else found


def find(found, path):
    for part in path.split("."):
        found = getattr(found, part)
    return found


def takes_parameter(function, parameter):
    return parameter in inspect.signature(function).parameters


def check_imports(export, options):
    """Checks that everything this export calls exists and takes the parameters that it passes."""
    used = dict(engine.USED) | engine.USED_BY_MODEL.get(export["model"]["model_type"], {})
    if KERNELS.exists():
        used |= engine.USED_BY_KERNELS
    wrong = []
    for name, parameters in used.items():
        try:
            function = resolve(name)
        except (ImportError, AttributeError) as error:
            wrong.append(f"{name}: {error}")
            continue
        wrong += [f"{name} takes no {parameter}" for parameter in parameters if not takes_parameter(function, parameter)]
    if wrong:
        raise RuntimeError(
            f"{'; '.join(wrong)}: this SDK is not the one that the export was written for, or its models have changed; "
            "other steps will fail for the same reason"
        )
    return {"names": len(used)}


def check_kernels(export, options):
    """Runs the small kernel in nki.simulate and compares the result with numpy in fp32."""
    if not KERNELS.exists():
        raise Skip("this export has no kernels")
    import ml_dtypes
    import nki
    import numpy as np

    entry = next(entry for entry in json.loads((KERNELS / "kernels.json").read_text()) if entry["use"] == "simulate")
    spec = importlib.util.spec_from_file_location("neuronmm_kernel", KERNELS / entry["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    M, K, r, N = (entry["shape"][name] for name in "MKrN")
    random = np.random.default_rng(0)
    shapes = [(M, K)] + [(K, r), (r, N)] * 2 + [(N, r), (r, K)]
    operands = [random.standard_normal(shape) / (1 if i == 0 else shape[0] ** 0.5) for i, shape in enumerate(shapes)]
    operands = [operand.astype(ml_dtypes.bfloat16) for operand in operands]
    kernel = getattr(module, entry["function"])[entry["cores"]]
    found = np.asarray(nki.simulate(kernel)(*operands), dtype=np.float32)
    x, *factors = (operand.astype(np.float32) for operand in operands)
    gate, up = x @ factors[0] @ factors[1], x @ factors[2] @ factors[3]
    expected = (gate / (1 + np.exp(-gate)) * up) @ factors[4] @ factors[5]
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if not error <= entry["tolerance"]:
        raise RuntimeError(
            f"off by {error:.2e}, expected at most {entry['tolerance']:.2e}: leave NEURONMM_KERNELS unset, which runs the "
            "same layers as plain torch products"
        )
    return {"relative_error": error, "tolerance": entry["tolerance"]}


def check_logits_in(mode):
    def step(export, options):
        report = compare(engine.Engine(export, MODEL, mode, logits=True), read_golden())
        if not report["passed"]:
            raise RuntimeError(
                f"log probabilities are off by {report['rms']:.2e} of the largest logit, expected at most "
                f"{report['bound']:.2e}: weights were changed or are read wrongly, and what the model writes is not to be "
                f"trusted; {report}"
            )
        return report

    return step


def check_logits_with_kernels(export, options):
    """Compares logits on the device with the kernels in use. Every prefill is padded to the number
    of rows that the kernels were emitted for, so that each prefill uses them.
    """
    if not KERNELS.exists():
        raise Skip("this export has no kernels")
    return check_logits_in("device")(export, options)


def check_compilation(export, options):
    engine.Engine(export, MODEL, "compile")
    return {}


def check_tokens(export, options):
    """Compares the tokens that the device chooses with the golden ones. The comparison of a
    sequence ends where it chooses another token whose golden logit is nearly as large.
    """
    device_engine = engine.Engine(export, MODEL, "device")
    same = total = 0
    for ids, first, logits in read_golden():
        prompt, expected_tokens = ids[: first + 1], [*ids[first + 1 :], int(logits[-1].argmax())]
        for found, expected, row in zip(device_engine.generate(prompt, len(expected_tokens)), expected_tokens, logits, strict=True):
            total += 1
            if found == expected:
                same += 1
                continue
            gap = (row.max() - row[found]).item() / row.abs().max().item()
            if gap > 0.02:
                raise RuntimeError(
                    f"after {total - 1} tokens {found} where {expected} was expected, {gap:.2e} less likely: if the step "
                    "logits has passed, decoding is wrong where a prefill is right"
                )
            break
    return {"tokens": total, "same": same}


def check_latency(name):
    def step(export, options):
        found = {variant: rest for variant, *rest in run.variants(options.dense)}
        if name not in found:
            raise Skip("no --dense" if name == "dense" else "this export has no kernels")
        folder, kernels_on = found[name]
        flags = ["--runs", options.runs, "--mode", "device"]
        return run.run_process(["run.py", "time", folder, *flags], "device", export["device"], kernels_on, options.timeout)

    return step


# name: (description, mode of its process, whether it needs a device, function)
STEPS = {
    "folder": ("all files are unchanged since the export", "cpu", False, check_files),
    "versions": ("installed packages are those of the export's SDK", "cpu", False, check_versions),
    "imports": ("the SDK has all functions that the export calls", "cpu", False, check_imports),
    "kernels": ("nki.simulate computes the expected result of our kernel", "cpu", False, check_kernels),
    "cpu_logits": ("logits in CPU mode agree with neuronmm's", "cpu", False, check_logits_in("cpu")),
    "cpu_compile": ("the model compiles without a device", "compile", False, check_compilation),
    "logits": ("logits on the device agree with neuronmm's", "device", True, check_logits_in("device")),
    "logits_kernels": ("logits on the device with our kernels agree with neuronmm's", "device", True, check_logits_with_kernels),
    "tokens": ("tokens that the device chooses agree with neuronmm's", "device", True, check_tokens),
    "latency_factored": ("latency of the compressed model on the device", "device", True, check_latency("factored")),
    "latency_kernels": ("latency of the compressed model with our kernels", "device", True, check_latency("factored_with_kernels")),
    "latency_dense": ("latency of the dense model on the device", "device", True, check_latency("dense")),
}


def run_here(name, export, options):
    """Runs a step in this process and returns its result for the report."""
    try:
        return {"result": "pass", "found": STEPS[name][3](export, options)}
    except Skip as reason:
        return {"result": "skip", "reason": str(reason)}
    except Exception as error:  # noqa: BLE001: an SDK that nobody here has seen may raise anything
        return {"result": "fail", "reason": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-4000:]}


def run_step(name, export, options):
    description, mode, needs_device, _ = STEPS[name]
    if needs_device and not glob.glob("/dev/neuron*") and not options.assume_device:
        return {"result": "skip", "reason": "no /dev/neuron* on this machine"}
    if name.startswith("latency_"):
        return run_here(name, export, options)  # this step starts a process itself
    flags = ["--dense", options.dense] if options.dense else []
    try:
        command = ["check_on_trainium.py", "--step", name, *flags]
        return run.run_process(command, mode, export["device"], name.endswith("_kernels"), options.timeout)
    except Exception as error:  # noqa: BLE001: the process of the step may crash or time out
        return {"result": "fail", "reason": str(error)[-4000:]}


def machine():
    devices = len(glob.glob("/dev/neuron*"))
    backend = os.environ.get("VLLM_NEURON_BACKEND", "unset")
    return {"platform": platform.platform(), "python": platform.python_version(), "neuron_devices": devices, "backend": backend}


def print_route(found):
    """Prints what the shell says of the route of compilation, and what the steps use."""
    name = getattr(engine, "BACKEND", None)
    if name:
        used = engine.environment("device", "")[name]
        print(f"Python {found['python']}, {name} {found['backend']} in the shell; the steps use {used}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dense", type=run.model_folder, help="folder of the model that was compressed; times it, too")
    parser.add_argument("--only", choices=STEPS, action="append", help="run only this step; may be repeated (default: all steps)")
    parser.add_argument("--runs", type=int, default=11, help="timed requests to each model after a warm-up (default 11)")
    parser.add_argument("--timeout", type=float, default=7200, help="largest time of one step in seconds (default 7200)")
    parser.add_argument("--assume-device", action="store_true", help="run the steps that need a device without looking for /dev/neuron*")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "check_report.json",
                        help="file to write the report to (default check_report.json next to this script)")  # fmt: skip
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options, export = parser.parse_args(), read_export()
    if options.step:
        return run.report(run_here(options.step, export, options))
    versions_here = installed(engine.DISTRIBUTIONS)
    report = {"format": "neuronmm-check-1", "export": export, "machine": machine(), "versions": versions_here, "steps": {}}
    require_writable(options.output)
    print_route(report["machine"])
    for name in options.only or STEPS:
        start = time.monotonic()
        found = run_step(name, export, options)
        report["steps"][name] = found | {"seconds": time.monotonic() - start}
        reason = found.get("reason", "").splitlines()
        print(f"{found['result']:5} {STEPS[name][0]}{': ' + reason[0] if reason else ''}", flush=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {options.output}; please send it to the project, whatever it says")
    return sys.exit(any(step["result"] == "fail" for step in report["steps"].values()))


if __name__ == "__main__":
    main()
