"""Sets a number of a kernel without a change of its file: `--set NAME=VALUE`.

NAME is a parameter of the kernel, or else a constant at the top level of the kernel's file. A
constant gets its value while the file is loaded, so that what the file derives from it follows.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import os
import re

from . import arguments, machine
from .arguments import UsageError

_KERNEL = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)(\[.*\])?")
_NAME = re.compile(r"[^\W\d]\w*")
_MOST_NAMED = 20  # names that a message lists
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
           ast.GeneratorExp)  # fmt: skip


class Settings:
    """The values of one command line, by the kind of what they set."""

    def __init__(self, kernel: str, texts: list[str]):
        self.kernel = kernel
        self.given = dict(map(_setting, texts))
        self.constants: dict[str, str] = {}
        match = _KERNEL.fullmatch(kernel)
        self.file = match["file"] if match else None
        self._source = _Source(self.file, match["name"]) if match and self.given else None
        if self._source is not None and self._source.tree is not None:
            self.constants = {name: text for name, text in self.given.items() if self._is_constant(name)}

    def _is_constant(self, name: str) -> bool:
        """Returns whether a name is to be set in the file. A kernel that the file does not define
        may turn out to have a parameter of the name only when it is loaded.
        """
        parameters = self._source.parameters
        if parameters is not None and name in parameters:
            return False
        places = self._source.assignments.get(name, [])
        if len(places) > 1:
            lines = ", ".join(map(str, sorted(places)))
            raise UsageError(f"--set {name}: {self.file} assigns it in lines {lines}; expected one assignment at its top level")
        if places and name not in self._source.constants:
            raise UsageError(f"--set {name}: {self.file}:{places[0]}: expected an assignment at the top level, found one in a "
                             f"statement like `if` or `for`")  # fmt: skip
        if not places and parameters is not None and "**" not in parameters:
            raise UsageError(self._unknown(name, parameters))
        return bool(places)

    def _unknown(self, name, parameters):
        constants = self._source.names_to_set() if self._source else ()
        return (f"--set {name}: expected a parameter of the kernel ({_listed(p for p in parameters if p != '**')}) or a constant "
                f"at the top level of {self.file or 'a file FILE.py'} ({_listed(constants)})")  # fmt: skip

    def of_parameters(self, parameters: list[str], names: dict, taken: set[str]) -> dict:
        """Returns the values of the kernel's parameters, when the kernel is loaded. `names` are those
        of its module, and `taken` the parameters that the command line gives by --arg or --kwarg.
        """
        values = {}
        for name, text in self.given.items():
            if name in self.constants:
                if name in parameters:
                    raise UsageError(f"--set {name}: {self.kernel} has a parameter and its file a constant of this name; "
                                     f"rename one")  # fmt: skip
                continue
            if name not in parameters and "**" not in parameters:
                raise UsageError(self._unknown(name, parameters))
            if name in taken:
                raise UsageError(f"--set {name}: --arg or --kwarg gives this parameter, too; expected one of them")
            values.update([arguments.literal(f"{name}={text}", names, "--set")])
        return values

    @contextlib.contextmanager
    def while_loading(self):
        """Lets Python compile the kernel's file with the constants' values, under whatever name it is
        imported.
        """
        if not self.constants:
            yield
            return
        loader = importlib.machinery.SourceFileLoader
        original = loader.get_code

        def get_code(self_, fullname):
            path = self_.get_filename(fullname)
            if not _is_same(path, self.file):
                return original(self_, fullname)
            return compile(self._source.with_values(self.constants), path, "exec", dont_inherit=True)

        loader.get_code = get_code
        try:
            yield
        finally:
            del loader.get_code  # the inherited one is back


class _Source:
    """The file of a kernel, as far as its names can be seen without running it."""

    def __init__(self, file: str, kernel: str):
        self.tree, self.parameters = None, None
        self.assignments: dict[str, list[int]] = {}  # by name: the lines of the module that assign it
        self.constants: dict[str, ast.stmt] = {}  # by name: the statement at the top level that assigns it
        try:
            with open(file, "rb") as text:
                self.tree = ast.parse(text.read(), file)
        except (OSError, SyntaxError, ValueError) as error:
            if machine.is_to_blame(error):
                raise
            return  # the kernel's own load has the better message
        for statement in self.tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == kernel:
                self.parameters = _parameters(statement.args)
            stored = list(_stored_names(statement))
            for name, line in stored:
                self.assignments.setdefault(name, []).append(line)
            if isinstance(statement, ast.Assign) or (isinstance(statement, ast.AnnAssign) and statement.value is not None):
                self.constants.update((name, statement) for name, _ in stored)

    def names_to_set(self) -> list[str]:
        return [name for name, lines in self.assignments.items() if name in self.constants and len(lines) == 1]

    def with_values(self, values: dict[str, str]) -> ast.Module:
        body = []
        for statement in self.tree.body:
            body.append(statement)
            for name, text in values.items():
                if self.constants[name] is statement:
                    assignment = _assignment(statement, name, _expression(name, text))
                    body[len(body) - _has_one_name(statement):] = [assignment]
        return ast.Module(body, self.tree.type_ignores)


def _has_one_name(statement) -> bool:
    """Returns whether a statement is NAME = VALUE or NAME: TYPE = VALUE, so that another one can take
    its place.
    """
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
    return len(targets) == 1 and isinstance(targets[0], ast.Name)


def _assignment(statement, name, value):
    """Returns NAME = VALUE at the place of a statement, to replace it or to follow it."""
    new = ast.Assign([ast.Name(name, ast.Store())], value)
    for node in ast.walk(new):
        ast.copy_location(node, statement)
    return new


def _stored_names(node):
    """Returns the names that a statement of a module assigns, with their lines. Names inside
    functions, classes and comprehensions are others.
    """
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, node.lineno
    if isinstance(node, _SCOPES) or (isinstance(node, ast.AnnAssign) and node.value is None):
        return
    for child in ast.iter_child_nodes(node):
        yield from _stored_names(child)


def _parameters(args: ast.arguments) -> list[str]:
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return [*names, "**"] if args.kwarg else names


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or not value.strip():
        raise UsageError(f"--set: expected NAME=VALUE, found {text!r}")
    _expression(name, value)
    return name, value.strip()


def _expression(name: str, text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise UsageError(f"--set {name}: {text!r} is no expression of Python: {getattr(error, 'msg', error)}") from None


def _listed(names) -> str:
    names = list(names)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or "it has none") + more


def _is_same(path: str, file: str) -> bool:
    return os.path.exists(path) and os.path.samefile(path, file)
