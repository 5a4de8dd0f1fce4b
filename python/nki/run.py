"""Runs an NKI kernel of a Python file and records its instructions in a trace file.

    python -m nki.run FILE.py:KERNEL --arg NAME=DTYPE[SHAPE] ... --trace OUT

The exit status is 0 on success and 2 if the command line is wrong. It is 1 if a file cannot be read,
or if the kernel raises an exception, breaks a rule of the hardware, or does not compute the expected
result. Standard error then has one line that says what is wrong. If the kernel raised an exception,
the lines of the traceback that belong to the user's files follow.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import re
import sys
import traceback
import types

import numpy as np

from . import (
    arguments,
    compiler,
    constants,
    folder,
    inputs,
    launch,
    limits,
    logical_cores,
    machine,
    missing,
    reference,
    user_modules,
    verification,
)
from .arguments import UsageError
from .tracer import device as devices
from .tracer import errors, location, releases
from .tracer.session import Session
from .tracer.trace import Trace

_MAX_SECONDS = 10_000_000  # the largest time that a timer accepts
_KERNEL = re.compile(r"(?P<target>.+):(?P<name>[^\W\d]\w*)(?:\[(?P<grid>\d+(?:,\d+)*)\])?")


def main(argv: list[str] | None = None, wrong_kernel: int = 1) -> int:
    """Returns the exit status. It is `wrong_kernel` if the kernel is to blame: it breaks a rule or
    exceeds a limit. A machine that cannot read or write is not the kernel's fault.
    """
    options = _parser().parse_args(argv)
    missing.install()
    try:
        memory = _checked_limits(options)
        if os.path.isdir(options.kernel):
            return run_folder(options, memory)
        with limits.of_time(options.max_seconds), limits.of_memory(memory):
            settings = constants.Settings(options.kernel, options.set)
            with settings.while_loading():
                return run(options, settings)
    except folder.FolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except errors.LimitReached as error:
        print(f"error: {error}", file=sys.stderr)
        return wrong_kernel
    except MemoryError as error:
        print(f"error: {_user_line(error) or options.kernel}: {_out_of_memory(memory)}", file=sys.stderr)
        return wrong_kernel
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KernelFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if machine.is_to_blame(error) else wrong_kernel
    except OSError as error:  # errors of our own files; those of the kernel's code are its failures
        print(f"error: {error.filename or options.trace}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


class KernelFailed(Exception):
    """The kernel is wrong. The text says how."""


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m nki.run", description="Runs an NKI kernel of a Python file and records its instructions."
    )
    parser.add_argument("kernel", metavar="FILE.py:KERNEL", help="kernel to run, where KERNEL[N] launches it on N cores, or a folder of tests")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=DTYPE[SHAPE]",
        help="tensor argument of the kernel; a suffix *SCALE sets the standard deviation of its random numbers, and :zeros, "
             ":arange or :normal:SEED how they are made; NAME=@FILE reads .npy, .npz:NAME or .safetensors:NAME"
    )
    parser.add_argument("--kwarg", action="append", default=[], metavar="NAME=VALUE",
                        help="compile-time argument of the kernel: a Python literal or an expression over its module's names")  # fmt: skip
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="value of a parameter of the kernel, or else of a constant at the top level of its file")  # fmt: skip
    parser.add_argument("--modules", action="append", default=[], metavar="FOLDER",
                        help="folder with modules that the kernel imports, searched after installed ones")  # fmt: skip
    parser.add_argument("--device", default="trn2", help="device to run on: trn1, trn2 or trn3 (default trn2)")
    parser.add_argument("--sdk", metavar="RELEASE",
                        help="release of the Neuron SDK whose rules hold (default: the newest that has the device)")  # fmt: skip
    parser.add_argument("--trace", metavar="OUT", help="trace file to write (default: none)")
    parser.add_argument("--values", action="store_true", help="compute the values of all tensors, too")
    parser.add_argument("--ref", metavar="MODULE:FN|EXPR",
                        help="function or NumPy expression of the expected result; implies --values")  # fmt: skip
    parser.add_argument("--save-outputs", metavar="FILE",
                        help="write the results to FILE.npz, or a single one to FILE.npy; implies --values")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers in tensors (default 0)")
    parser.add_argument("--tolerance", type=float,
                        help="largest allowed relative error (default: computed from the kernel's roundings, at least 1e-5)")  # fmt: skip
    parser.add_argument("--json", metavar="F", help="JSON file to write the report to; - is standard output")
    parser.add_argument("--quiet", action="store_true", help="print no report")
    parser.add_argument("--max-instructions", type=int, default=20_000_000,
                        help="largest number of instructions to execute (default 20,000,000)")  # fmt: skip
    parser.add_argument("--max-seconds", type=float, default=600.0,
                        help="largest time that the kernel may run, in seconds (default 600)")  # fmt: skip
    parser.add_argument("--max-memory", metavar="SIZE",
                        help="largest memory that the kernel may take, like 4GiB (default: three quarters of this machine's)")  # fmt: skip
    return parser


def run_folder(options, memory) -> int:
    """Runs the tests of a folder. The exit status is 1 if one of them fails."""
    if options.arg or options.kwarg or options.set or options.ref or options.trace or options.save_outputs:
        raise UsageError(f"{options.kernel}: a folder of tests takes no --arg, --kwarg, --set, --ref, --trace or --save-outputs")
    for modules in options.modules:
        user_modules.add_folder(modules)
    with limits.of_memory(memory):
        rows = folder.run(options.kernel, options.max_seconds)
    if options.json and options.json != "-":
        with open(options.json, "w") as out:
            json.dump({"tests": rows}, out, indent=1)
    elif options.json == "-":
        print(json.dumps({"tests": rows}, indent=1))
    elif not options.quiet:
        for row in rows:
            name = f"{row['file']}{'::' if row['test'] else ''}{row['test']}"
            print(f"{row['outcome']:8}{row['seconds']:8.2f} s  {name}{': ' if row['message'] else ''}{row['message']}")
    return 1 if any(row["outcome"] == "failed" for row in rows) else 0


def _select_device(options):
    """Returns the device, and lets the rules of the release hold from now on."""
    device = devices.find(options.device)
    if device is None:
        raise UsageError(f"--device: expected trn1, trn2 or trn3, found {options.device!r}")
    releases.selected = _release(options.sdk)
    releases.next_run = releases.of_device(device.name)
    return device


def _bind(options, kernel, tensors, given, with_values):
    """Returns the arguments of the kernel's call, and the numbers of its tensors."""
    generator = np.random.default_rng(options.seed) if with_values else None
    try:
        call, numbers = arguments.bind(_parameters(kernel), tensors, given, generator)
    # NumPy raises these errors for random numbers that do not fit into memory.
    except (MemoryError, ValueError) as error:
        raise UsageError(f"--arg: the tensors' numbers do not fit into memory: {error}") from None
    absent = _required(kernel).difference(call)
    if absent:
        raise UsageError(f"{options.kernel}: the kernel needs {', '.join(sorted(absent))}: give --arg or --kwarg")
    return call, numbers


def run(options, settings) -> int:
    device = _select_device(options)
    for modules in options.modules:
        user_modules.add_folder(modules)
    tensors = [arguments.tensor_argument(text) for text in options.arg]
    with_values = options.values or options.ref is not None or options.save_outputs is not None
    if options.save_outputs and not options.save_outputs.endswith((".npz", ".npy")):
        raise UsageError(f"--save-outputs: expected FILE.npz or FILE.npy, found {options.save_outputs!r}")
    for text in (options.kernel, options.ref or ""):
        reference.check_readable(text)
    module, kernel, grid = _find_kernel(options.kernel)
    given = dict(arguments.literal(text, vars(module)) for text in options.kwarg)
    given.update(settings.of_parameters(_parameters(kernel), vars(module), {*given, *(t.name for t in tensors)}))
    is_legacy = hasattr(kernel, "whole_grid")
    if not is_legacy:
        grid = _grid_of_release(options.kernel, grid, device)
    call, numbers = _bind(options, kernel, tensors, given, with_values)
    trace = Trace(options.trace)

    def new_session(trace):
        return Session(device, trace, with_values, grid, seed=options.seed, max_instructions=options.max_instructions,
                       max_seconds=options.max_seconds)  # fmt: skip

    session = new_session(trace)
    _follow_release(session, kernel, is_legacy)
    for package in missing.unlisted:
        session.note(f"{package} is not installed; decorators of it do nothing here")
    for text in user_modules.notes:
        session.note(text)

    def rerun():
        other = new_session(Trace())
        other.release = session.release
        return [other.read(view) for view in launch.tensors_of(_run_kernel(other, kernel, call))]

    try:
        returned = _run_kernel(session, kernel, call)
        if inspect.isgenerator(returned) or inspect.iscoroutine(returned):
            returned.close()
            raise KernelFailed(f"{_definition(kernel)}: the kernel yields or awaits, which runs nothing; expected a plain function")
        outputs = launch.tensors_of(returned)
        if not session.trace.instructions:
            session.note("the kernel has issued no instructions: what is predicted is a launch of nothing")
        _note_arguments(session, outputs)
        report = _report(session, kernel, outputs)
        if options.save_outputs:
            _save_outputs(session, outputs, options.save_outputs)
        _check_outputs(session, outputs, options, {**given, **numbers}, report, rerun)
        if options.trace:
            trace.write(_header(session, kernel, outputs, trace, _rotates(module)))
    finally:
        trace.close()
    _print(options, report)
    wrong = [o for o in report.get("outputs", ()) if o.get("passed") is False]
    return 1 if wrong else 0


def _release(sdk):
    if sdk is None:
        return None
    if sdk not in releases.RELEASES:
        raise UsageError(f"--sdk: expected {', '.join(releases.RELEASES)}, found {sdk!r}")
    return releases.RELEASES[sdk]


def _grid_of_release(text, grid, device):
    try:
        return logical_cores.grid_of(text, grid, device, releases.of_device(device.name))
    except errors.NkiValidationError as error:
        raise KernelFailed(str(error)) from None


def _follow_release(session, kernel, is_legacy):
    """Lets a legacy kernel follow the newest release that compiles it, and notes what the release
    says of the launch.
    """
    if is_legacy and releases.selected is None and not session.release.legacy:
        session.note(f"neuronxcc.nki: {session.release} does not compile it, so the rules are those of "
                     f"{releases.NEWEST_WITH_LEGACY}")  # fmt: skip
        session.release = releases.NEWEST_WITH_LEGACY
    if not is_legacy:
        logical_cores.note_launch(session)
        compiler.note(session, getattr(kernel, "compile_config", None))
        if releases.reads_text():
            session.note("NKI_COMPILER_FRONTEND: this tracer runs the kernel's Python in any case")


def _checked_limits(options) -> int:
    """Returns the bytes that the kernel may take."""
    if options.tolerance is not None and not 0 <= options.tolerance < math.inf:
        raise UsageError(f"--tolerance: expected a number from 0, found {options.tolerance:g}")
    if not 0 < options.max_seconds <= _MAX_SECONDS:
        raise UsageError(f"--max-seconds: expected more than 0 and at most {_MAX_SECONDS:,}, found {options.max_seconds:g}")
    if options.max_instructions < 1:
        raise UsageError(f"--max-instructions: expected 1 or more, found {options.max_instructions}")
    if options.seed < 0:
        raise UsageError(f"--seed: expected 0 or more, found {options.seed}")
    memory = limits.default_memory() if options.max_memory is None else limits.bytes_of(options.max_memory)
    if memory is None:
        raise UsageError(f"--max-memory: expected a size like 512MiB or 4GiB, found {options.max_memory!r}")
    return memory


def _out_of_memory(memory):
    return f"limit: the kernel needs more than {limits.text_of(memory)} of memory, which is the limit (--max-memory)"


def _find_kernel(text):
    match = _KERNEL.fullmatch(text)
    if match is None:
        raise UsageError(f"expected FILE.py:KERNEL, found {text!r}")
    user_modules.notes.clear()
    try:
        module = user_modules.load(match["target"])
    except MemoryError:
        raise
    except BaseException as error:
        raise KernelFailed(_import_failure(match["target"], error)) from None
    kernel = getattr(module, match["name"], None)
    if isinstance(kernel, (missing.Placeholder, type)) or not callable(kernel):
        raise UsageError(_no_kernel(match["target"], match["name"], module))
    grid = tuple(int(n) for n in match["grid"].split(",")) if match["grid"] else getattr(kernel, "grid", ())
    if not 1 <= math.prod(grid) <= 1024:
        raise UsageError(f"{text}: expected a launch on 1 to 1024 cores, found {list(grid)}")
    if _is_legacy(getattr(kernel, "func", kernel)):
        if releases.selected is not None and not releases.selected.legacy:
            raise KernelFailed(f"{_definition(getattr(kernel, 'func', kernel))}: neuronxcc.nki was removed in the Neuron SDK "
                               f"2.30, and the rules are those of {releases.selected}: write `import nki`, or use "
                               f"--sdk 2.28")  # fmt: skip
        _refuse_two_cores(text, grid)
        return module, sys.modules["neuronxcc.nki"].function_to_trace(kernel), grid
    return module, getattr(kernel, "func", kernel), grid


def _refuse_two_cores(text, grid):
    if tuple(grid) == (2,):
        raise KernelFailed(f"{text}: the programs of a kernel that imports neuronxcc.nki run one after the other on one core, "
                           f"so that the time on two cores is not known; launch [2,1] for two programs on one core, or write "
                           f"the kernel for the package nki")  # fmt: skip


def _no_kernel(target, name, module):
    names = [n for n, v in vars(module).items() if isinstance(v, launch.Kernel)]
    text = f"{target} has no kernel {name!r}; " + (f"it has {', '.join(names)}" if names else "it has none")
    why = [f"{package} is not installed" for package in missing.unlisted] + user_modules.notes
    return "; ".join([text, *why])


def _is_legacy(kernel):
    """Returns whether the kernel's file uses the legacy dialect. Imports of its types alone do not
    count, because some files of the new dialect name them.
    """
    for value in getattr(inspect.unwrap(kernel), "__globals__", {}).values():
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name.startswith("neuronxcc.nki") and name != "neuronxcc.nki.typing":
            return isinstance(sys.modules.get("neuronxcc.nki"), types.ModuleType)
    return False


def _import_failure(target, error):
    if isinstance(error, errors.NkiValidationError):
        return str(error)
    if isinstance(error, ImportError):
        return f"{_user_line(error) or target}: import: {error}"
    if isinstance(error, SyntaxError):
        return f"{error.filename or target}:{error.lineno or 1}: {error.msg}"
    return _describe_exception(error, target)


def names_legacy_package(argv: list[str]) -> bool:
    """Returns whether a kernel's file of the command line mentions the package neuronxcc."""
    for text in argv:
        path = text.rpartition(":")[0]
        if path.endswith(".py") and os.path.isfile(path):
            with open(path, "rb") as file:
                return b"neuronxcc" in file.read()
    return False


def _parameters(kernel):
    kinds = inspect.signature(kernel).parameters.values()
    return [("**" if p.kind is p.VAR_KEYWORD else p.name) for p in kinds if p.kind is not p.VAR_POSITIONAL]


def _required(kernel):
    kinds = inspect.signature(kernel).parameters.values()
    return {p.name for p in kinds if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _run_kernel(session, kernel, call):
    """Runs the kernel and turns whatever it raises into a message."""
    try:
        return launch.execute(session, kernel, (), call)
    except errors.NkiValidationError as error:
        raise KernelFailed(str(error)) from None
    except MemoryError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a kernel may raise any class
        raise KernelFailed(_describe_exception(error)) from None


def _user_line(error):
    lines = [f for f in traceback.extract_tb(error.__traceback__) if location.is_user_file(f.filename)]
    return f"{location.display_path(lines[-1].filename)}:{lines[-1].lineno}" if lines else None


def _describe_exception(error, target="<no file>"):
    """Returns `file:line: Type: text` and below it the user's lines of the traceback. If a call of
    this package raised, the first line names that call.
    """
    raised = traceback.extract_tb(error.__traceback__)
    frames = [f for f in raised if location.is_user_file(f.filename)]
    call = _failing_call(error)
    lines = [f"{_user_line(error) or target}: {f'{call}: ' if call else ''}{type(error).__name__}: {_text_of(error)}"]
    shown = [f"  {location.display_path(f.filename)}:{f.lineno} in {f.name}: {f.line}" for f in frames]
    if len(shown) > 20:  # an endless recursion
        shown[10:-10] = [f"  and {len(shown) - 20} calls more"]
    return "\n".join(lines + shown)


def _text_of(error) -> str:
    try:
        return str(error)
    except Exception:  # the kernel's own class may not be able to say what happened
        return "an error without a text"


_MODULES = {"nki.isa": "nki.isa", "nki.language": "nki.language", "nki.tracer.tensor": "tensor", "nki.collectives": "nki.collectives",
            "neuronxcc.nki.isa": "nisa", "neuronxcc.nki.language": "nl", "neuronxcc.nki.tile": "tile"}  # fmt: skip


def _failing_call(error) -> str:
    """Returns the function of this package that the user's innermost line called and that raised,
    or "".
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    users = [i for i, frame in enumerate(frames) if location.is_user_file(frame.f_code.co_filename)]
    if not users or users[-1] + 1 >= len(frames):
        return ""
    called = frames[users[-1] + 1]
    if called.f_code.co_name == "checked_call" and users[-1] + 2 < len(frames):  # neuronxcc/nki/keywords.py
        called = frames[users[-1] + 2]
    module = called.f_globals.get("__name__", "")
    prefix = next((text for name, text in _MODULES.items() if module == name or module.startswith(name + ".")), None)
    return f"{prefix}.{called.f_code.co_name}" if prefix else ""


def _rotates(module):
    """Returns the copies of buffers that an emitted kernel states, by name."""
    stated = getattr(module, "NEURONMM_ROTATES", None)
    if not isinstance(stated, dict):
        return {}
    return {k: v for k, v in stated.items() if isinstance(k, str) and type(v) is int and 0 < v <= 1 << 20}


def _header(session, kernel, outputs, trace, rotates=None):
    header = trace.header(kernel=kernel.__name__, file=os.path.basename(inspect.getfile(kernel)), dialect=session.dialect,
                          device=session.device.name)  # fmt: skip
    header["sdk"] = session.release.sdk
    if compiler.has_alloc_fallback(session, getattr(inspect.unwrap(kernel), "compile_config", None)):
        header["alloc_fallback"] = True
    header["outputs"] = sorted({t.storage.root.kind for t in outputs})
    for kind in header["outputs"]:
        if header["tensors"][kind]["role"] == "scratch":
            header["tensors"][kind]["role"] = "output"
    if session.grid:
        header["grid"], header["core"] = list(session.grid), 0
    if rotates:
        header["rotates"] = rotates
    if session.notes:
        header["notes"] = session.notes
    return header


def _report(session, kernel, outputs):
    counts = session.trace.instruction_counts()
    return {
        "kernel": kernel.__name__,
        "device": session.device.name,
        "instructions": session.trace.instructions,
        "by_instruction": counts,
        "outputs": [{"dtype": str(t.dtype), "shape": list(t.shape)} for t in outputs],
        "notes": session.notes,
    }


def _definition(kernel):
    code = inspect.unwrap(kernel).__code__
    return f"{location.display_path(code.co_filename)}:{code.co_firstlineno}"


def _note_arguments(session, outputs):
    """Notes the arguments that the kernel writes and does not return. In the legacy dialect they are
    results if the kernel returns nothing.
    """
    returned = {view.storage.root.id for view in outputs}
    for number, line in session.written_arguments.items():
        if number not in returned:
            session.note(f"{line}: writes to the argument '{session.arguments[number]}', which the kernel does not return; "
                         f"the compiler may refuse this ({errors.NOT_RETURNED})")  # fmt: skip


def _save_outputs(session, outputs, path):
    """Writes the results, types that NumPy lacks as float32. Two results of one name get numbers."""
    if path.endswith(".npy") and len(outputs) != 1:
        raise UsageError(f"--save-outputs: the kernel returns {len(outputs)} tensors; expected FILE.npz")
    arrays: dict = {}
    for i, view in enumerate(outputs):
        numbers = session.read(view)
        name = view.name if view.name and view.name not in arrays else f"result{i}"
        arrays[name] = numbers.astype(np.float16) if view.dtype == "float16" else numbers
    inputs.save(path, arrays)


def _check_outputs(session, outputs, options, arguments_, report, rerun):
    """Checks the results and adds the comparison with the reference to the report."""
    try:
        verification.check_outputs(session, outputs)
        if options.ref is None:
            return
        rows = verification.compared(session, outputs, options.ref, arguments_, options.tolerance, rerun)
    except errors.NkiValidationError as error:
        raise KernelFailed(str(error)) from None
    for output, row in zip(report["outputs"], rows):
        output.update(row)


def _print(options, report):
    if options.json and options.json != "-":
        with open(options.json, "w") as out:
            json.dump(report, out, indent=1)
    if options.json == "-":
        print(json.dumps(report, indent=1))
        return
    if options.quiet:
        return
    print(f"{report['kernel']} on {report['device']}: {report['instructions']} instructions")
    for name, count in sorted(report["by_instruction"].items(), key=lambda item: -item[1]):
        print(f"  {count:10d} {name}")
    for i, row in enumerate(report["outputs"]):
        print(verification.text_of(row, i))
    for note in report["notes"]:
        print(f"note: {note}")


if __name__ == "__main__":
    sys.exit(main())
