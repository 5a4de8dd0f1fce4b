"""Reads the arguments of a kernel from a command line."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass

import numpy as np

from . import inputs
from .launch import ArgumentSpec
from .tracer import dtypes

_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:\*(?P<scale>[\d.eE+-]+))?(?::(?P<rule>[a-z]\w*))?(?::(?P<seed>\d{1,18}))?")
_NAME = re.compile(r"[^\W\d]\w*")  # Python's names may have any letters


class UsageError(Exception):
    """A command line is wrong. The text names the option."""


@dataclass
class TensorArgument:
    """A tensor argument as the command line describes it."""

    name: str
    dtype: dtypes.DType
    shape: tuple
    scale: float | None = None
    rule: str = "normal"
    seed: int | None = None  # None: the run's seed
    data: np.ndarray | None = None  # the numbers of a file

    def numbers(self, generator, first: bool) -> np.ndarray:
        """Returns the argument's numbers, rounded to its type."""
        if self.data is not None:
            return self.data
        if self.seed is not None:
            generator = np.random.default_rng(self.seed)
        return inputs.by_rule(self.rule, self.dtype, self.shape, self.scale, generator, first)


def tensor_argument(text: str) -> TensorArgument:
    """Reads NAME=DTYPE[SHAPE], perhaps with *SCALE, :RULE and :SEED behind it, or NAME=@FILE
    (inputs.py).
    """
    name, equals, described = text.partition("=")
    described = described.strip()
    if equals and _NAME.fullmatch(name) and "@" in described:
        return _file_argument(name, *described.split("@", 1))
    match = _TENSOR.fullmatch(described)
    if not equals or not _NAME.fullmatch(name) or match is None:
        raise UsageError(f"--arg: expected NAME=DTYPE[SHAPE] like x=bf16[128,512], or NAME=@FILE, found {text!r}")
    sizes = [part.strip() for part in match["shape"].split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in sizes):
        raise UsageError(f"--arg {name}: expected sizes of at least 1, found [{match['shape']}]")
    try:
        scale = float(match["scale"]) if match["scale"] else None
        if scale is not None and not math.isfinite(scale):
            raise ValueError
    except ValueError:
        raise UsageError(f"--arg {name}: expected a finite number behind '*', found {match['scale']!r}") from None
    rule = match["rule"] or "normal"
    if rule not in inputs.RULES:
        raise UsageError(f"--arg {name}: expected one of the rules {', '.join(inputs.RULES)}, found {rule!r}")
    seed = int(match["seed"]) if match["seed"] else None
    return TensorArgument(name, _dtype(name, match["dtype"]), tuple(map(int, sizes)), scale, rule, seed)


def _dtype(name, text):
    dtype = dtypes.find(text)
    if dtype is None:
        raise UsageError(f"--arg {name}: expected a type like bf16, fp16, fp32, i32 or fp8, found {text!r}")
    return dtype


def _file_argument(name, dtype, file):
    try:
        found, numbers = inputs.read_file(file, _dtype(name, dtype) if dtype else None)
    except inputs.InputError as error:
        raise UsageError(f"--arg {name}: {error}") from None
    return TensorArgument(name, found, numbers.shape, data=numbers)


def literal(text: str, names: dict, option: str = "--kwarg"):
    """Reads NAME=VALUE, where VALUE is a Python literal or an expression over the names of the
    kernel's module. `option` is the one that gave the text.
    """
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(f"{option}: expected NAME=VALUE, found {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        pass
    try:
        # The expression comes from the user's own command line and is evaluated over the user's own
        # module.
        return name, eval(value, names)
    except Exception as error:
        raise UsageError(f"{option} {name}: {value!r} is no Python literal and no expression of the kernel's module: "
                         f"{error}") from None  # fmt: skip


def bind(parameters: list[str], tensors: list[TensorArgument], options: dict, generator) -> tuple[dict, dict]:
    """Returns two dictionaries by name: the arguments of the call, and the numbers of the tensors.
    Without a generator there are no numbers.

    A tensor goes to the parameter of its name. If no tensor has the name of a parameter, the
    tensors go to the parameters in order. A name that is given several times becomes a tuple of
    tensors.
    """
    by_name: dict[str, list] = {}
    names = set(parameters)
    unnamed = not any(t.name in names for t in tensors)
    free = [p for p in parameters if p not in options]
    if unnamed and len({t.name for t in tensors}) > len(free):
        raise UsageError(f"--arg: {len(tensors)} tensors for the parameters {', '.join(free) or 'none'}")
    renamed = dict(zip(dict.fromkeys(t.name for t in tensors), free)) if unnamed else {}
    numbers: dict = {}
    for t in tensors:
        name = renamed.get(t.name, t.name)
        if name not in names:
            raise UsageError(f"--arg {t.name}: the kernel has no such parameter, only {', '.join(parameters)}")
        data = t.numbers(generator, first=not numbers) if generator is not None else None
        by_name.setdefault(name, []).append((ArgumentSpec(t.dtype, t.shape, data), data))
        numbers[name] = data
    for name in options:
        if name not in names and "**" not in names:
            raise UsageError(f"--kwarg {name}: the kernel has no such parameter, only {', '.join(parameters)}")
    call = dict(options)
    for name, given in by_name.items():
        call[name] = given[0][0] if len(given) == 1 else tuple(s for s, _ in given)
        numbers[name] = given[0][1] if len(given) == 1 else tuple(d for _, d in given)
    return call, numbers
