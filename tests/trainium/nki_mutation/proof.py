"""The proof by mutation: right kernels pass, and five wrong variants of each fail.

    python3 proof.py [--program NEURONMM] [--kernels N] [--variants N] [--cases FILE.py:FUNCTION] [--list]

A variant that computes what the right kernel computes is replaced by another one. A variant without a barrier always counts, because it
computes the right result by chance. Without --program only the kernels of this folder are used.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import sys
import tempfile
from dataclasses import dataclass, field

import cases
import mutate
import numpy as np
from nki import comparison, run, user_modules

SEED = 20261129
_EQUAL = 2e-5  # the distance of two results in float32 that differ by their roundings only


@dataclass
class Result:
    case: cases.Case
    right: str = ""  # the message if the right kernel fails
    wrong: int = 0
    equal: int = 0
    passed: list = field(default_factory=list)  # (rule, change, source) of wrong variants that pass
    rules: dict = field(default_factory=dict)


def executed(arguments: list[str], outputs: str | None = None) -> tuple[int, str]:
    """Runs a kernel in this process. Returns the exit status and what it printed."""
    printed = io.StringIO()
    modules, path = set(sys.modules), list(sys.path)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = run.main([*arguments, *(["--save-outputs", outputs] if outputs else []), "--max-seconds", "120"])
        except SystemExit as error:  # the kernel's file is no kernel any more
            status = int(error.code or 0)
    sys.path[:] = path
    user_modules.folders.clear()
    for name in set(sys.modules) - modules:
        if not name.startswith(("nki", "neuronxcc", "numpy")):
            del sys.modules[name]
    return status, printed.getvalue()


def tried(case: cases.Case, wanted: int, folder: str) -> Result:
    result = Result(case)
    reference = ["--ref", case.reference]
    status, printed = executed([*case.command(case.file), *reference])
    if status:
        result.right = printed.strip() or f"exit status {status}"
        return result
    with open(case.file) as source:
        text = source.read()
    for number, (rule, change, mutated) in enumerate(mutate.variants(text, case.kernel, SEED)):
        if result.wrong == wanted:
            break
        file = os.path.join(folder, f"{case.kernel}_variant{number}.py")
        with open(file, "w") as out:
            out.write(mutated)
        status, _ = executed([*case.command(file), *reference])
        if not status and rule != "barrier" and _is_equal(case, file, folder):
            result.equal += 1
            continue
        result.wrong += 1
        result.rules[rule] = result.rules.get(rule, 0) + 1
        if not status:
            result.passed.append((rule, change, mutated))
    return result


def _is_equal(case, file, folder):
    """Returns whether a variant that passes computes what the right kernel computes. Roundings of
    the two may differ, so that both run in float32 if the kernel takes it.
    """
    right, other = os.path.join(folder, "right.npz"), os.path.join(folder, "variant.npz")
    for coarse in ("bf16[", "fp8["), ():
        command = [_in_float32(word, coarse) for word in case.command(case.file)]
        if executed(command, right)[0]:
            continue
        command[0] = case.command(file)[0]
        if executed(command, other)[0]:
            return False
        with np.load(right) as a, np.load(other) as b:
            return sorted(a.files) == sorted(b.files) and all(comparison.distance(b[n], a[n]) <= _EQUAL for n in a.files)
    return False


def _in_float32(word, coarse):
    for dtype in coarse:
        word = word.replace(dtype, "fp32[")
    return word


def _strangers(text):
    file, _, name = text.rpartition(":")
    spec = importlib.util.spec_from_file_location("cases_of_strangers", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    parser.add_argument("--kernels", type=int, default=10**6)
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--cases", action="append", default=[])
    parser.add_argument("--list", action="store_true", help="print every variant that passes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chosen = cases.own() + (cases.emitted(options.program, folder) if options.program else [])
        for text in options.cases:
            chosen += _strangers(text)
        results = [tried(case, options.variants, folder) for case in chosen[: options.kernels]]
    for result in results:
        state = f"FAILS: {result.right}" if result.right else f"{result.wrong} wrong variants, {len(result.passed)} pass"
        print(f"{result.case.name:40} {state}; {result.equal} replaced; {result.rules}")
        for rule, change, source in result.passed:
            print(f"    passes: {rule}: {change}")
            if options.list:
                print(source)
    right = sum(not r.right for r in results)
    wrong, passed = sum(r.wrong for r in results), sum(len(r.passed) for r in results)
    print(f"{right} of {len(results)} right kernels pass; {passed} of {wrong} wrong variants pass")
    return 0 if right == len(results) and passed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
