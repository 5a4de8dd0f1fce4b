"""Packages that kernels' files import for their tests and that are not installed: torch, jax, pytest and the like.

An import of one of them gives a placeholder that lets the file be imported: decorators, annotations and
base classes made of it do nothing. To compute with it is an error that names the package and the line.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys

from .tracer import errors
from .tracer import session as sessions

PACKAGES = {"torch", "torch_xla", "torch_neuronx", "torch_neuron", "jax", "jaxlib", "flax", "pytest", "scipy", "ml_dtypes",
            "neuron_dtypes", "neuronxcc", "neuronxlogger", "transformers", "matplotlib", "tqdm", "absl", "pandas", "diffusers",
            "typing_extensions", "einops", "typeguard", "hypothesis"}  # fmt: skip


class Placeholder:
    """Anything of a missing package."""

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

    def _refuse(self):
        package = self._name.partition(".")[0]
        errors.fail(self._name, f"the kernel uses {package}, which is not installed")


class _Module(Placeholder):
    def __init__(self, spec):
        super().__init__(spec.name)
        self.__dict__.update(__name__=spec.name, __spec__=spec, __path__=[], __file__=None, __loader__=spec.loader)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: finds what nothing else has found."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec)

    def exec_module(self, module):
        pass


def install():
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
