"""Finds the line of the user's files that is being executed, from Python's frames and never from
source text.

A file is the user's unless it belongs to this package, to a dialect that registers its folder with
`exclude_folder`, or to Python itself. `Sources.here` runs for every instruction, so that its result
is cached for each position in the byte code.
"""

from __future__ import annotations

import bisect
import dis
import functools
import os
import sys
import sysconfig

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_skipped = [_PACKAGE, sysconfig.get_paths()["stdlib"] + os.sep]
_is_user: dict[str, bool] = {}
_STORES = {"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"}


def exclude_folder(folder: str) -> None:
    """Registers `folder`: frames of its files are not the user's."""
    _skipped.append(os.path.abspath(folder) + os.sep)
    _is_user.clear()


def is_user_file(name: str) -> bool:
    is_user = _is_user.get(name)
    if is_user is None:
        is_user = not name.startswith("<") and not any(os.path.abspath(name).startswith(s) for s in _skipped)
        _is_user[name] = is_user
    return is_user


def user_frame(frame=None):
    """Returns the innermost frame of a user's file, beginning at `frame` and going outward. None:
    there is none.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        is_user = _is_user.get(name)
        if is_user is None:
            is_user = is_user_file(name)
        if is_user:
            return frame
        frame = frame.f_back
    return None


def describe(frame=None) -> str:
    """Returns `file:line` as messages show it."""
    frame = user_frame(frame or sys._getframe(1))
    if frame is None:
        return "<no file>:0"
    return f"{display_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def display_path(name: str) -> str:
    relative = os.path.relpath(name)
    return name if relative.startswith("..") else relative


class Sources:
    """The numbered places of a trace: (file index, line, function), each once."""

    def __init__(self):
        self.files: list[str] = []
        self.sources: list[tuple[int, int, str]] = []
        self.names: list[str] = []  # by source: the variable that receives the call's result
        # (code, byte) -> source. The dictionary holds the code object, so that its id is not
        # reused.
        self._places: dict = {}
        self._known: dict = {}

    def here(self) -> int:
        """Returns the source of the innermost user frame."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if _is_user.get(code.co_filename):
                break
            if code.co_filename not in _is_user and is_user_file(code.co_filename):
                break
            frame = frame.f_back
        else:
            return self._add(("<no file>", 0, ""), "")
        key = (id(code), frame.f_lasti)
        place = self._places.get(key)
        if place is None:
            position = (display_path(code.co_filename), frame.f_lineno, code.co_name)
            place = self._places[key] = (self._add(position, _assigned_name(code, frame.f_lasti)), code)
        return place[0]

    def definition(self, function) -> int:
        """Returns the source of a function's first line."""
        code = function.__code__
        return self._add((display_path(code.co_filename), code.co_firstlineno, code.co_name), "")

    def _add(self, position, name):
        file, line, function = position
        if file not in self.files:
            self.files.append(file)
        key = (self.files.index(file), line, function, name)
        if key not in self._known:
            self._known[key] = len(self.sources)
            self.sources.append(key[:3])
            self.names.append(name)
        return self._known[key]


def _assigned_name(code, last) -> str:
    """Returns the variable that the byte code stores a call's result in: `tile` for `tile =
    nl.ndarray(...)`.
    """
    offsets, stored = _stored_names(code)
    following = bisect.bisect_right(offsets, last)
    return stored[following] if following < len(stored) else ""


@functools.lru_cache(maxsize=256)
def _stored_names(code) -> tuple[list[int], list[str]]:
    """Returns the offset of every instruction of the byte code, and the variable that it stores in,
    or "". A function is disassembled once, because that takes milliseconds.
    """
    offsets, stored = [], []
    for instruction in dis.get_instructions(code):
        offsets.append(instruction.offset)
        stored.append(str(instruction.argval) if instruction.opname in _STORES else "")
    return offsets, stored
