"""Runs a folder of tests in the shape of the vendor's samples:

    python -m nki.run DIR

The tests are functions `test_*` and methods of classes `Test*` in files `test_*.py` or `*_test.py`,
with the marks, parameters and fixtures of pytest. If some tests have the mark `simulation`, only
these run, as with the samples' own option --simulation-only. The others need a device.

Each file runs in a process of its own, and each test within the limits of a kernel.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import sys
import tempfile
import time
import traceback

from . import limits, pytest_stand_in, user_modules
from .pytest_stand_in import Parameters, Skipped
from .tracer import errors, location

_END = "end\n"  # the last line of a process's results
_MOST_FILES = 10_000  # of tests in a folder. Assumed: more than any public repository has.
_FOLDERS_WITHOUT_TESTS = {".git", "__pycache__", "node_modules", ".venv", "venv"}


class FolderError(Exception):
    """The folder has no tests. The text says what was expected."""


def run(folder: str, max_seconds: float) -> list[dict]:
    """Returns a row per test: its file, name, outcome ("passed", "failed" or "skipped"), message
    and seconds.
    """
    files = _test_files(folder)
    if not files:
        raise FolderError(f"{folder}: expected files test_*.py or *_test.py with functions test_*, found none")
    rows = []
    for path in files:
        rows += _in_process_of_its_own(path, folder, max_seconds)
    # Tests without the mark need a device if other tests of the folder have it.
    if any(row["simulation"] for row in rows):
        rows = [row for row in rows if row["simulation"] or row["outcome"] == "failed" and row["test"] == ""]
    for row in rows:
        del row["simulation"]
    return rows


def _test_files(folder):
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _FOLDERS_WITHOUT_TESTS)
        found += [os.path.join(at, n) for n in sorted(names) if n.endswith(".py") and (n.startswith("test_") or n.endswith("_test.py"))]
        if len(found) > _MOST_FILES:
            raise FolderError(f"{folder}: has more than {_MOST_FILES:,} files of tests")
    return found


def _in_process_of_its_own(path, folder, max_seconds):
    with tempfile.TemporaryFile("w+") as results:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _run_file(path, folder, max_seconds, results)
                results.write(_END)
                status = 0
            finally:
                results.flush()
                os._exit(status)
        os.waitpid(child, 0)
        results.seek(0)
        lines = results.readlines()
    rows = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
    if not lines or lines[-1] != _END:
        rows.append(_row(path, "", "failed", "the tests of this file ended their process", 0.0, False))
    return rows


def _row(path, name, outcome, message, seconds, simulation):
    return {"file": location.display_path(path), "test": name, "outcome": outcome, "message": message, "seconds": seconds,
            "simulation": simulation}  # fmt: skip


def _run_file(path, folder, max_seconds, results):
    sys.modules["pytest"] = pytest_stand_in.module()

    def write(*row):
        results.write(json.dumps(_row(path, *row)) + "\n")
        results.flush()

    try:
        with limits.of_time(max_seconds):
            fixtures = _fixtures(path, folder)
            module = user_modules.load(path)
    except BaseException as error:
        write("", "failed", _message(error), 0.0, False)
        return
    fixtures |= {name: value for name, value in vars(module).items() if hasattr(value, "fixture_options")}
    tests = list(_tests(module))
    only_simulation = any(_has_mark(t, "simulation") for _, t, _ in tests)
    for name, test, owner in tests:
        simulation = _has_mark(test, "simulation")
        if only_simulation and not simulation:
            continue
        try:
            cases = list(_cases(test))
        except Exception as error:  # the marks are the user's own
            write(name, "failed", f"its marks cannot be read: {_message(error)}", 0.0, simulation)
            continue
        for suffix, values in cases:
            begin = time.monotonic()
            outcome, message = _outcome(test, owner, values, fixtures, max_seconds)
            write(f"{name}{suffix}", outcome, message, time.monotonic() - begin, simulation)


def _fixtures(path, folder):
    """Returns the fixtures of the files conftest.py between the folder and the test."""
    found, at = {}, os.path.dirname(os.path.abspath(path))
    places = [at]
    while at != os.path.abspath(folder) and at != os.path.dirname(at):
        at = os.path.dirname(at)
        places.append(at)
    for place in reversed(places):
        file = os.path.join(place, "conftest.py")
        if os.path.exists(file):
            names = vars(user_modules.load(file))
            found.update({name: value for name, value in names.items() if hasattr(value, "fixture_options")})
    return found


def _tests(module):
    for name, value in list(vars(module).items()):
        if name.startswith("test") and inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, value, None
        elif name.startswith("Test") and inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if method.startswith("test"):
                    yield f"{name}.{method}", function, value


def _has_mark(test, name):
    return any(mark.name == name for mark in getattr(test, "marks", ()))


def _cases(test):
    """Yields the cases of all `parametrize` marks: a suffix of the test's name, and arguments."""
    axes = []
    for mark in getattr(test, "marks", ()):
        if mark.name != "parametrize":
            continue
        given = dict(zip(("argnames", "argvalues"), mark.args)) | mark.kwargs
        names = given["argnames"]
        names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        rows = []
        for values in given["argvalues"]:
            values = values.values if isinstance(values, Parameters) else (values,) if len(names) == 1 else values
            rows.append(dict(zip(names, values)))
        axes.append(rows)
    for number, chosen in enumerate(itertools.product(*axes)):
        yield f"[{number}]" if axes else "", {k: v for row in chosen for k, v in row.items()}


def _outcome(test, owner, values, fixtures, max_seconds):
    for mark in getattr(test, "marks", ()):
        if mark.name == "skip" or (mark.name == "skipif" and any([*mark.args[:1], mark.kwargs.get("condition")])):
            return "skipped", str(mark.kwargs.get("reason", "marked"))
    try:
        with limits.of_time(max_seconds):
            instance = owner() if owner is not None else None
            if instance is not None and hasattr(instance, "setup_method"):
                instance.setup_method()
            arguments = {n: values[n] if n in values else _fixture(n, fixtures, ()) for n in _parameters(test, owner)}
            test(*(() if instance is None else (instance,)), **arguments)
    except Skipped as error:
        return "skipped", str(error)
    except BaseException as error:
        if _has_mark(test, "xfail"):
            return "skipped", f"expected to fail: {_message(error)}"
        return "failed", _message(error)
    return "passed", ""


def _parameters(function, owner=None):
    names = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return names[1:] if owner is not None else names


def _fixture(name, fixtures, users):
    if name == "request":
        return _Request()
    if name not in fixtures or name in users:
        raise Skipped(f"the fixture {name!r} is not known here")
    function = fixtures[name]
    made = function(**{n: _fixture(n, fixtures, (*users, name)) for n in _parameters(function)})
    return next(made) if inspect.isgenerator(made) else made


class _Request:
    """The run as a fixture sees it: every option that begins with --simulation is on."""

    @property
    def config(self):
        return self

    def getoption(self, name, default=None):
        return True if name.lstrip("-").startswith("simulation") else default


def _message(error):
    text = " ".join(str(error).split())[:500]
    if isinstance(error, errors.NkiValidationError):
        return text
    lines = [f for f in traceback.extract_tb(error.__traceback__) if location.is_user_file(f.filename)]
    where = f"{location.display_path(lines[-1].filename)}:{lines[-1].lineno}: " if lines else ""
    kind = type(error).__name__
    return f"{where}{kind}: {text}" if text else f"{where}{kind}: {lines[-1].line if lines else ''}"
