"""Placeholders for packages that kernels' files import and that are not installed: torch, jax,
pytest and any other.

The import of such a package returns a placeholder, so that the file can be imported. Decorators,
annotations and base classes made of a placeholder do nothing. Computing with one is an error that
names the package and the line.

A file may test whether a package exists. An import inside `try` therefore fails as usual. The
packages listed below are an exception, because published kernels import them in `try` without
needing them.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys

from .tracer import errors, location
from .tracer import session as sessions

PACKAGES = {"torch", "torch_xla", "torch_neuronx", "torch_neuron", "jax", "jaxlib", "flax", "pytest", "scipy", "ml_dtypes",
            "neuron_dtypes", "neuronxcc", "neuronxlogger", "transformers", "matplotlib", "tqdm", "absl", "pandas", "diffusers",
            "typing_extensions", "einops", "typeguard", "hypothesis"}  # fmt: skip

# Private parts of the real `nki`. Generated kernels annotate their parameters with a class of these
# modules.
_PRIVATE_MODULES = ("nki.backends", "nki.framework")

unlisted: list[str] = []  # missing packages that are not listed above; reports name them


class Placeholder:
    """Any object of a missing package."""

    def __init__(self, name: str):
        self.__dict__["_name"] = name

    def __getattr__(self, attribute):
        if attribute.startswith("__") and attribute.endswith("__"):
            raise AttributeError(attribute)
        return Placeholder(f"{self._name}.{attribute}")

    def __call__(self, *args, **kwargs):
        if sessions.current is not None:
            self._refuse()
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Placeholder):
            return args[0]  # a decorator leaves the function as it is
        return Placeholder(f"{self._name}()")

    def __getitem__(self, key):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases):
        return ()

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, cls):
        return False

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def __bool__(self):
        if sessions.current is not None:
            self._refuse()
        return False

    def __iter__(self):
        if sessions.current is not None:
            self._refuse()
        return iter(())

    def _computed(self, *others):
        if sessions.current is not None:
            self._refuse()
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _computed

    def _number(self):
        self._refuse()

    __len__ = __int__ = __float__ = __index__ = _number

    def _refuse(self):
        inner = self._name.startswith(_PRIVATE_MODULES)
        package = ".".join(self._name.split(".")[:2]) if inner else self._name.partition(".")[0]
        errors.fail(self._name, f"the kernel uses {package}, which is not installed")


class _Module(Placeholder):
    def __init__(self, spec):
        super().__init__(spec.name)
        self.__dict__.update(__name__=spec.name, __spec__=spec, __path__=[], __file__=None, __loader__=spec.loader)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that no other finder has found. It is the last one in sys.meta_path."""

    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        inside = name != package and isinstance(sys.modules.get(package), _Module)
        inside = inside or name.startswith(_PRIVATE_MODULES)
        if package in PACKAGES or inside or (name == package and _is_imported_outside_try()):
            if package not in PACKAGES and not inside:
                unlisted.append(package)
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec)

    def exec_module(self, module):
        pass


def _is_imported_outside_try() -> bool:
    """Returns whether the module is imported by a statement of a user's file that does not expect
    failure.
    """
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None or not location.is_user_file(frame.f_code.co_filename):
        return False
    return frame.f_lineno in _import_lines_outside_try(frame.f_code.co_filename)


def is_installed(name: str) -> bool:
    """Returns whether a file belongs to a package that pip or the system has installed."""
    return re.search(r"[\\/](site|dist)-packages[\\/]", name) is not None


@functools.lru_cache
def _import_lines_outside_try(name: str) -> frozenset:
    """Returns the lines of the import statements outside `try`. The result is empty for installed
    packages, which handle missing modules themselves.
    """
    if is_installed(name):
        return frozenset()
    with open(name, "rb") as file:
        tree = ast.parse(file.read())
    inside_try = {node for outer in ast.walk(tree) if isinstance(outer, ast.Try) for node in ast.walk(outer)}
    imports = (n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) and n not in inside_try)
    return frozenset(line for n in imports for line in range(n.lineno, n.end_lineno + 1))


def install():
    unlisted.clear()
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
