#!/usr/bin/env python3
"""Checks every name and call in emitted NKI kernels against AWS's own signatures.

usage: check_nki_names.py API FILE.py...

API is the folder nki/api/nki in a checkout of github.com/aws-neuron/aws-neuron-sdk, at the release
to check against. For the legacy dialect it is general/nki/api/nki at a commit before 2025-10-17.
The script prints what does not agree and then exits with status 1.
"""

import ast
import pathlib
import sys


def definitions(path):
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    return found


def call_errors(call, function):
    """Yields the differences between the arguments of a call and the parameters of its function."""
    given, parameters = [keyword.arg for keyword in call.keywords], function.args
    positional = [argument.arg for argument in (*parameters.posonlyargs, *parameters.args)]
    names = {*positional, *(argument.arg for argument in parameters.kwonlyargs)}
    if len(call.args) > len(positional) and not parameters.vararg:
        yield f"takes {len(positional)} arguments, is given {len(call.args)}"
    if not parameters.kwarg:
        yield from (f"takes no {name}" for name in given if name not in names)
    required = positional[len(call.args) : len(positional) - len(parameters.defaults)]
    yield from (f"needs {name}" for name in required if name not in given)


def errors_in(path, modules):
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        module = modules.get(node.value.id)
        if module is not None and node.attr not in module and node.attr not in ("isa", "language"):
            yield f"{path}:{node.lineno}: {node.value.id} has no {node.attr}"
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
            continue
        function = modules.get(node.func.value.id, {}).get(node.func.attr)
        if isinstance(function, ast.FunctionDef):
            yield from (f"{path}:{node.lineno}: {ast.unparse(node.func)} {text}" for text in call_errors(node, function))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    api = pathlib.Path(sys.argv[1])
    for path in (api / "__init__.py", api / "isa/__init__.py", api / "language/__init__.py", *map(pathlib.Path, sys.argv[2:])):
        if not path.is_file():
            sys.exit(f"{path}: expected a file, found none; API is the folder nki/api/nki of a checkout")
    # The names under which emitted files import the modules.
    names = {"nki": "", "nisa": "isa", "nl": "language"}
    modules = {name: definitions(api / folder / "__init__.py") for name, folder in names.items()}
    found = [text for path in sys.argv[2:] for text in errors_in(pathlib.Path(path), modules)]
    print("\n".join(found) if found else f"{len(sys.argv) - 2} files fit {api}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
