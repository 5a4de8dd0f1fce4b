"""Reads the perf rows of a checkout of aws-neuron/nki-library, and the kernel call that each row's
test makes.

The tests run unchanged, with replacements for three things. The decorators of pytest note the rows.
The orchestrator keeps the call instead of compiling it. Everything that makes numbers returns only
a type and a shape. The column of the target is removed from a row before anything else sees the
row. Only `Row.target` holds it, and predicting does not read `Row.target`.
"""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import sys
import types

import nki
import numpy as np
from nki import launch, missing
from nki.tracer import dtypes

CORE = "test.integration.nkilib.core"
TARGET_COLUMNS = ("tpbSgCyclesSum", "qor", "cyclesQoR")
# The test files with a column of targets: module and class. The two files of the MLP have lists in
# the module instead: module, class, method, function that makes a case, width of a row, position of
# the target.
FILES = {
    "attention_cte": (f"{CORE}.attention.test_attention_cte", "TestRangedAttentionCTEKernels"),
    "qkv_tkg": (f"{CORE}.qkv.test_qkv_tkg", "TestQkvTkgKernel"),
    "rmsnorm_quant": (f"{CORE}.rmsnorm.test_rmsnorm_quant", "TestRmsNormQuantKernel"),
    "find_nonzero": ("test.integration.nkilib.experimental.benchmark.test_find_nonzero_indices_with_count",
                     "TestFindNonzeroIndicesWithCountKernel"),
}  # fmt: skip
MLP_FILES = {
    "mlp_cte": (f"{CORE}.mlp.test_mlp_cte", "TestMlpCteKernel", "test_mlp_cte_unit", "create_mlp_cte_test_config", 17, 5),
    "mlp_tkg": (f"{CORE}.mlp.test_mlp_tkg", "TestMlpTkgKernels", "test_mlp_tkg_unit", "create_mlp_tkg_test_config", 21, 8),
}  # fmt: skip


class Skipped(Exception):
    """The test skips this row."""


@dataclasses.dataclass
class Row:
    file: str  # a key of FILES or MLP_FILES
    test: str  # the method, or the list of the module
    index: int  # the index in the list
    text: str  # the row without its target
    cores: int | None  # the cores that the row's own column names
    target: object
    call: object  # a function that returns the KernelCall


@dataclasses.dataclass
class KernelCall:
    function: object
    arguments: dict
    cores: int


class _Numpy(types.ModuleType):
    """NumPy for the tests. Large arrays, and arrays of types that NumPy lacks, are only a type and
    a shape.
    """

    def __getattr__(self, name):
        return getattr(np, name)

    def __init__(self):
        super().__init__("numpy")
        for name in ("zeros", "ones", "empty", "ndarray", "full"):
            setattr(self, name, _shape_if_large(getattr(np, name)))


def _shape_if_large(function):
    def make(shape=None, *args, **kwargs):
        dtype = kwargs.get("dtype", args[-1] if args else None)
        size = int(np.prod(shape)) if shape is not None else 0
        if isinstance(dtype, dtypes.DType) or size > 4096:
            return Shape(dtype if dtype is not None else np.float32, shape)
        return function(shape, *args, **kwargs)

    return make


class Shape(launch.ArgumentSpec):
    """A tensor with only a type and a shape."""

    def __init__(self, dtype, shape):
        found = dtypes.find(dtype)
        super().__init__(found if found is not None else dtypes.float32, tuple(int(n) for n in np.atleast_1d(shape)))

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        count = int(np.prod(self.shape))
        known_size = -int(np.prod(shape)) if -1 in shape else 1
        return Shape(self.dtype, [count // known_size if n == -1 else n for n in shape])

    def astype(self, dtype):
        return Shape(dtype, self.shape)

    def __array_priority__(self):
        return 1


def static_cast(array, dtype):
    return Shape(dtype, array.shape)


def _generator(*args, **kwargs):
    return lambda shape, dtype, name=None: Shape(dtype, shape)


class _Mark:
    def __getattr__(self, name):
        if name == "parametrize":
            return self._parametrize
        return lambda *args, **kwargs: args[0] if len(args) == 1 and callable(args[0]) and not kwargs else lambda f: f

    @staticmethod
    def _parametrize(names, rows, **kwargs):
        def record(function):
            columns = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
            function.__dict__.setdefault("_rows", []).append((columns, rows))
            return function

        return record


def _skip(reason=""):
    raise Skipped(reason)


def _modules():
    """Returns stand-ins for modules that the tests import and that are not part of the checkout."""
    pytest = types.ModuleType("pytest")
    pytest.mark, pytest.skip, pytest.param = _Mark(), _skip, lambda *values, **kwargs: values
    pytest.fixture = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
    pytest.raises = lambda *args, **kwargs: None
    casts = types.ModuleType("neuron_dtypes")
    casts.static_cast, casts.sizeinbytes = static_cast, lambda dtype: dtypes.find(dtype).itemsize
    casts.__getattr__ = lambda name: missing.Placeholder(f"neuron_dtypes.{name}")
    metadata = types.ModuleType("test.utils.pytest_test_metadata")
    metadata.pytest_test_metadata = lambda *args, **kwargs: lambda cls: cls
    extensions = types.ModuleType("typing_extensions")
    extensions.override = lambda f: f
    extensions.__getattr__ = lambda name: missing.Placeholder(f"typing_extensions.{name}")
    types_of_nki = types.ModuleType("nki.dtype")
    types_of_nki.__getattr__ = dtypes.find
    nki.dtype = types_of_nki
    modules = {m.__name__: m for m in (pytest, casts, metadata, extensions, types_of_nki)}
    # Placeholders replace packages that are not needed, and that load slowly if they are installed.
    for name in ("torch", "scipy", "scipy.special", "ml_dtypes"):
        modules[name] = types.ModuleType(name)
        modules[name].__getattr__ = lambda attribute: missing.Placeholder(attribute)
    for name in ("test_orchestrator", "metrics_collector", "metadata_loader", "output_validator"):
        module = types.ModuleType(f"test.utils.{name}")
        module.__getattr__ = lambda attribute: missing.Placeholder(attribute)
        modules[module.__name__] = module
    return modules


class _PlaceholderFinder(missing.Finder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("nki", "neuronxcc")):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)


class _RepairedModuleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Repairs mlp.py of the release of 2026-04-13, which closes its docstring twice. The text
    between both ends is left out.
    """

    NAME = "nkilib_src.nkilib.core.mlp.mlp"

    def find_spec(self, name, path=None, target=None):
        if name != self.NAME:
            return None
        self.file = f"{path[0]}/mlp.py"
        return importlib.machinery.ModuleSpec(name, self, origin=self.file)

    def exec_module(self, module):
        with open(self.file) as text:
            source = text.read()
        try:
            code = compile(source, self.file, "exec")
        except SyntaxError as error:
            lines = source.split("\n")
            end = next(i for i in range(error.lineno - 1, len(lines)) if lines[i].strip() == '"""')
            # The text is replaced by empty lines, so that lines keep their numbers.
            lines[error.lineno - 1 : end + 1] = [""] * (end + 2 - error.lineno)
            code = compile("\n".join(lines), self.file, "exec")
        module.__file__ = self.file
        exec(code, vars(module))


def open_checkout(root: str):
    sys.path[:0] = [root, f"{root}/src"]
    missing.install()
    sys.meta_path.insert(0, _RepairedModuleFinder())
    sys.modules.update(_modules())
    sys.meta_path.append(_PlaceholderFinder())
    # A test forgets to import this name.
    builtins.Platforms = importlib.import_module("test.utils.common_dataclasses").Platforms
    generators = importlib.import_module("test.integration.nkilib.utils.tensor_generators")
    for name in vars(generators).copy():
        if name.endswith("_generator") or name.startswith("np_random_sample"):
            setattr(generators, name, _generator)


class _CallRecorder:
    """An orchestrator that keeps the call. All other methods do nothing."""

    call = None

    def execute(self, kernel):
        self.call = KernelCall(kernel.kernel_func, kernel.kernel_input, kernel.compiler_input.logical_nc_config)

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def _recorded_call(method, given):
    recorder = _CallRecorder()
    fixtures = {"test_manager": recorder, "collector": _CallRecorder(), "request": None}
    names = method.__code__.co_varnames[1 : method.__code__.co_argcount]
    if "platform_target" in names:
        fixtures["platform_target"] = importlib.import_module("test.utils.common_dataclasses").Platforms.TRN2
    method(given["self"], **{n: v for n, v in {**fixtures, **given}.items() if n in names})
    if recorder.call is None:
        raise Skipped("the test calls no kernel")
    return recorder.call


def _import(name):
    module = importlib.import_module(name)
    for each in list(sys.modules.values()):
        if getattr(each, "__name__", "").startswith("test.integration") and vars(each).get("np") is np:
            each.np = _Numpy()
        if getattr(each, "__name__", "").startswith("test.integration"):
            for key, value in list(vars(each).items()):
                if key.endswith("_tensor_generator") or key.startswith("np_random_sample"):
                    setattr(each, key, _generator)
    return module


def _text_of(value):
    if hasattr(value, "name") and hasattr(value, "value"):
        return value.name
    if isinstance(value, type):
        return value.__name__
    return "" if callable(value) and not isinstance(value, (int, float)) else str(value)


def rows(key: str) -> list[Row]:
    return _rows_of_lists(key) if key in MLP_FILES else _rows_of_methods(key)


def _rows_of_methods(key):
    name, cls = FILES[key]
    module = _import(name)
    tests = getattr(module, cls)
    found = []
    for test, method in vars(tests).items():
        for columns, listed in vars(method).get("_rows", ()) if callable(method) else ():
            target_index = [columns.index(c) for c in TARGET_COLUMNS if c in columns]
            if not target_index:
                continue
            others = [rows for rows in method._rows if rows[0] is not columns]
            for index, row in enumerate(listed):
                for more in others[0][1] if others else (None,):
                    found.append(_row(key, tests, test, method, index, columns, list(row), target_index[0], others, more))
    return found


def _row(key, tests, test, method, index, columns, row, target_index, others, more):
    target, row[target_index] = row[target_index], None
    given = dict(zip(columns, row))
    if others:
        given[others[0][0][0]] = more
    text = " ".join(f"{n}={_text_of(v)}" for n, v in given.items() if n not in TARGET_COLUMNS and _text_of(v) != "")
    cores = given.get("vnc_degree", given.get("lnc_degree"))
    return Row(key, test, index, text, cores, target, lambda: _recorded_call(method, {"self": tests(), **given}))


def _rows_of_lists(key):
    name, cls, test, config, width, target_index = MLP_FILES[key]
    module = _import(name)
    tests = getattr(module, cls)
    found = []
    for list_name, listed in list(vars(module).items()):
        for kind, index, row in _rows_of_groups(listed):
            if len(row) != width:
                break
            row = list(row)
            target, row[target_index] = row[target_index], None
            text = " ".join(_text_of(v) for i, v in enumerate(row) if i != target_index)
            label = f"{list_name}.{kind}" if kind else list_name
            found.append(Row(key, label, index, text, row[0], target, _mlp_call(module, tests, test, config, row)))
    return found


def _rows_of_groups(listed):
    groups = listed.items() if isinstance(listed, dict) else [("", listed)]
    for kind, group in groups:
        if isinstance(group, list) and group and isinstance(group[0], (list, tuple)):
            for index, row in enumerate(group):
                yield getattr(kind, "name", kind), index, row


def _mlp_call(module, tests, test, config, row):
    def call():
        test_config = getattr(module, config)([row])
        generator = test_config.global_tensor_configs.custom_generators[0]
        case = generator.generate_ranges(test_config.global_tensor_configs, {})[0]
        return _recorded_call(vars(tests)[test], {"self": tests(), "range_test_options": case})

    return call
