"""Imports the files of the user's kernels and references, and finds the modules that these import.

The user's folders are searched only for imports of the user's own files, and after everything that
is installed. A file `json.py` or `ml_dtypes.py` that happens to lie next to a kernel, or in the
current folder, is therefore never taken for a module of Python, NumPy or this package.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import types

from . import missing
from .tracer import location

notes: list[str] = []  # notes on loaded files, for the report
folders: list[str] = []  # absolute paths, searched in this order
_IMPORTLIB = os.path.dirname(importlib.__file__) + os.sep


class Finder:
    """Finds modules in the user's folders."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is not None or not _is_imported_by_user():
            return None
        return importlib.machinery.PathFinder.find_spec(name, folders)


def _is_imported_by_user() -> bool:
    """Returns whether a user's file, or this one in its place, executes the import."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(("<", _IMPORTLIB)):
        frame = frame.f_back
    if frame is None:
        return False
    name = frame.f_code.co_filename
    return name == __file__ or (location.is_user_file(name) and not missing.is_installed(name))


def _install():
    """Puts the finder behind those of installed modules, but before that of placeholders."""
    if Finder in sys.meta_path:
        return
    places = [i for i, finder in enumerate(sys.meta_path) if isinstance(finder, missing.Finder)]
    sys.meta_path.insert(places[0] if places else len(sys.meta_path), Finder)


def add_folder(folder: str) -> None:
    """Adds a folder that is searched after the others."""
    _install()
    if os.path.abspath(folder) not in folders:
        folders.append(os.path.abspath(folder))


def load(target: str) -> types.ModuleType:
    """Imports FILE.py or a dotted name. The folder of the file and the current one are added to
    `folders`.
    """
    _install()
    # Python takes a compiled file for the source's if the source has its size and its second of
    # change, so that a kernel that is changed and run again would be the old one.
    sys.dont_write_bytecode = True
    if not target.endswith(".py"):
        add_folder(os.getcwd())
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
        if entry not in folders:
            folders.insert(0, entry)
    for entry in (*_import_roots(path, nodes), os.getcwd()):
        add_folder(entry)
    if file[:-3].isidentifier() and _import_packages(package, folder, needed=depth > 0):
        name = ".".join([*package, file[:-3]])
        if _is_found_at(name, path):
            return importlib.import_module(name)
    # Names such as `kernel_2.1.py` or `copy.py` cannot be reached by an import statement.
    return _module(re.sub(r"\W", "_", file[:-3]) + "_of_the_user", path)


def _is_found_at(name: str, path: str) -> bool:
    """Returns whether an import of this name gives the file at `path`."""
    if name in sys.modules:
        found = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name)
        found = spec.origin if spec is not None and spec.has_location else None
    return bool(found) and os.path.exists(found) and os.path.samefile(found, path)


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
    package that is imported or installed.
    """
    if folder in map(os.path.abspath, _folders_of(name)):
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


def _folders_of(package: str) -> list[str]:
    """Returns the folders of the package that an import of this name gives."""
    if package in sys.modules:
        return list(getattr(sys.modules[package], "__path__", []))
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or []) if spec is not None else []


def _module(name: str, path: str, folders: list[str] | None = None) -> types.ModuleType:
    """Imports the file at `path` under this name, as a module or (with `folders`) as a package."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
