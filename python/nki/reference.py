"""The expected result of a kernel: an expression or a user's function, and the distance of the
result from it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import math
import os
import re
import sys
import types

import numpy as np

from .arguments import UsageError
from .tracer import dtypes

notes: list[str] = []  # notes on loaded files, for the report
_FUNCTION = re.compile(r"(?P<target>[\w./-]+):(?P<name>[A-Za-z_]\w*)")


def _phi(x):
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


_NAMES = {
    "np": np, "silu": lambda x: x / (1 + np.exp(-x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * _phi(x), "relu": lambda x: np.maximum(x, 0), "rsqrt": lambda x: 1 / np.sqrt(x),
    "softmax": lambda x, axis=-1: np.exp(x - x.max(axis, keepdims=True)) / np.exp(x - x.max(axis, keepdims=True)).sum(
        axis, keepdims=True),
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "abs", "sin", "cos", "maximum", "minimum", "sum",
                                            "mean", "max", "min", "concatenate", "where", "square", "cumsum", "transpose")},
}  # fmt: skip


def load(target: str) -> types.ModuleType:
    """Imports FILE.py or a dotted name. The folder of the file is added to sys.path."""
    if not target.endswith(".py"):
        return importlib.import_module(target)
    path = os.path.abspath(target)
    folder, file = os.path.split(path)
    package = []
    with open(path, "rb") as source:
        nodes = list(ast.walk(ast.parse(source.read(), path)))
    depth = _relative_import_depth(nodes)
    # The loop ends at a folder from which the file's relative imports work.
    while os.path.exists(os.path.join(folder, "__init__.py")) or len(package) < depth:
        folder, name = os.path.split(folder)
        package.insert(0, name)
    for entry in (folder, os.path.dirname(path)):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    for entry in (*_import_roots(path, nodes), os.getcwd()):
        if entry not in sys.path:
            sys.path.append(entry)
    if file[:-3].isidentifier() and _import_packages(package, folder, needed=depth > 0):
        module = importlib.import_module(".".join([*package, file[:-3]]))
        if getattr(module, "__file__", None) and os.path.samefile(module.__file__, path):
            return module
    # Names such as `kernel_2.1.py` or `copy.py` cannot be reached by an import statement.
    return _module(re.sub(r"\W", "_", file[:-3]) + "_of_the_user", path)


def _relative_import_depth(nodes: list[ast.AST]) -> int:
    """Returns how many enclosing folders the file's relative imports need: two for `from ..utils
    import x`.
    """
    return max((n.level for n in nodes if isinstance(n, ast.ImportFrom)), default=0)


def _import_roots(path: str, nodes: list[ast.AST]) -> list[str]:
    """Returns the folders above the file that contain modules which it imports by their full names.
    """
    names = {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module and not n.level}
    names |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    roots, folder = [], os.path.dirname(path)
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        modules = (os.path.join(folder, *name.split(".")) for name in names if "." in name)
        if any(os.path.isdir(module) or os.path.isfile(module + ".py") for module in modules):
            roots.append(folder)
    return roots


def _import_packages(package: list[str], folder: str, needed: bool) -> bool:
    """Imports the packages around a file and returns whether that worked.

    A file without relative imports does not need them. If a package cannot be imported, such a file
    is loaded alone.
    """
    if package:
        package[0] = _package(package[0], os.path.join(folder, package[0]))
    try:
        for end in range(1, len(package) + 1):
            importlib.import_module(".".join(package[:end]))
    except Exception as error:  # a user's package may raise anything
        if needed:
            raise
        notes.append(f"the package {'.'.join(package)} cannot be imported here ({type(error).__name__}: {error}); "
                     "its kernel's file is read alone")  # fmt: skip
        return False
    return True


def _package(name: str, folder: str) -> str:
    """Returns the name for importing the user's package.

    The package gets another name than its own if it is called `nki` like this one, or like another
    imported package.
    """
    existing = sys.modules.get(name)
    if existing is None or folder in map(os.path.abspath, getattr(existing, "__path__", [])):
        return name
    name = f"{name}_of_the_user"
    if name not in sys.modules:
        start = os.path.join(folder, "__init__.py")
        if os.path.exists(start):
            _module(name, start, [folder])
        else:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [folder]
    return name


def _module(name: str, path: str, folders: list[str] | None = None) -> types.ModuleType:
    """Imports the file at `path` under this name, as a module or (with `folders`) as a package."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_readable(text: str) -> None:
    """Raises an OSError if the text names a function of a Python file that cannot be read."""
    file, colon, _ = text.rpartition(":")
    if colon and file.endswith(".py"):
        with open(file, "rb"):
            pass


def expected(text: str, arguments: dict) -> list[np.ndarray]:
    """Returns the results of the reference. Its arguments are numbers that are rounded to their
    types.
    """
    try:
        result = _evaluate(text, arguments)
    except UsageError:
        raise
    except Exception as error:  # the user's reference may raise anything
        raise UsageError(f"--ref {text}: {type(error).__name__}: {error}") from None
    return [np.asarray(part) for part in (result if isinstance(result, (tuple, list)) else (result,))]


def _evaluate(text, arguments):
    match = _FUNCTION.fullmatch(text)
    if match is None:
        return eval(
            text, {**_NAMES, **{name: _as_float64(value) for name, value in arguments.items()}}
        )  # the expression is the user's own
    function = getattr(load(match["target"]), match["name"], None)
    if function is None:
        raise UsageError(f"--ref: {match['target']} has no {match['name']}")
    return function(**_accepted_arguments(function, arguments))


def _accepted_arguments(function, arguments):
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name in parameters}


def _as_float64(value):
    if isinstance(value, tuple):
        return tuple(_as_float64(v) for v in value)
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def default_tolerance(types: list[dtypes.DType]) -> float:
    """Returns eight half-ulps of the coarsest floating-point type, but at least 1e-5."""
    coarsest = max((2.0 ** -(d.mantissa + 2) for d in types if d.float), default=0.0)
    return max(8 * coarsest, 1e-5)


def distance(found: np.ndarray, reference: np.ndarray) -> float:
    """Returns the distance of a result from the reference.

    It is the larger of the relative Frobenius error and the largest error of an element relative to
    |ref| + 8 RMS(ref). It is infinite if one of the two has a NaN or infinity where the other has
    not the same.
    """
    found, reference = found.astype(np.float64), np.asarray(reference, np.float64)
    finite = np.isfinite(reference)
    if not np.isfinite(found[finite]).all() or not np.array_equal(found[~finite], reference[~finite], equal_nan=True):
        return math.inf
    a, b = found[finite], reference[finite]
    if not b.size:
        return 0.0
    rms = math.sqrt(float((b * b).mean()))
    error = np.abs(a - b)
    if rms == 0:
        return float(error.max())
    frobenius = math.sqrt(float((error * error).mean())) / rms
    return max(frobenius, float((error / (np.abs(b) + 8 * rms)).max()))
