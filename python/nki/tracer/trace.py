"""Writes the trace file that `docs/reference/nki_trace.md` specifies while the kernel runs.

Records are packed into a buffer. A full buffer goes to a temporary file in the target's folder. The
header, which names everything that the records number, is known only at the end. The target file
appears by one rename, or not at all.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile

from .location import Sources

MAGIC, VERSION = b"NMMTRACE", 1
INSTRUCTION, ALLOCATE, RELEASE, LOOP_BEGIN, LOOP_ITERATION, LOOP_END = range(6)

_HEAD = "<HHIII"
_INSTRUCTIONS = [struct.Struct(_HEAD + "IIq" * n) for n in range(40)]
_ALLOCATION = struct.Struct("<HHIIIqq")
_MARK = struct.Struct(_HEAD)
_BUFFER = 4 << 20


class Trace:
    """Collects records. Without a path they are counted and dropped."""

    def __init__(self, path: str | None = None):
        self.path = path
        self.sources = Sources()
        self.instructions = 0
        self.instances = 0
        self._kinds: dict = {}
        self._patterns: dict = {}
        self._operations: dict = {}
        self._executed: list[int] = []  # the number of executed instructions by operation
        self._loops: dict = {}
        self._buffer = bytearray()
        self._bytes = 0
        self._file = None
        self._open = path is not None

    # Numbered things

    def operation(self, name: str, engine: str, operands: tuple, attributes: tuple = ()) -> int:
        """Returns the number of a combination. `attributes` is a tuple of (name, value) pairs with
        hashable values.
        """
        key = (name, engine, operands, attributes)
        found = self._operations.get(key)
        if found is None:
            found = self._operations[key] = len(self._operations)
            self._executed.append(0)
        return found

    def instruction_counts(self) -> dict:
        """Returns the number of executed instructions by name."""
        counts: dict[str, int] = {}
        for (name, *_), n in zip(self._operations, self._executed):
            counts[name] = counts.get(name, 0) + n
        return counts

    def _pattern(self, layout):
        index = layout.index = self._patterns.setdefault(layout.pattern, len(self._patterns))
        return index

    def _kind(self, storage, role, source, parent=None):
        key = (storage.name, storage.memory, storage.dtype.trace, storage.shape, role, source, parent)
        return self._kinds.setdefault(key, len(self._kinds))

    def source_line(self, kind: int) -> str:
        """Returns the `file:line` that makes a kind of tensor."""
        file, line, _ = self.sources.sources[list(self._kinds)[kind][5]]
        return f"{self.sources.files[file]}:{line}"

    # Records

    def allocate(self, storage, role: str, source: int, address: int = -1):
        storage.id = self.instances
        self.instances += 1
        storage.kind = self._kind(storage, role, source)
        self._add(_ALLOCATION.pack(ALLOCATE, 0, storage.kind, source, storage.partition, address, -1))

    def view(self, storage, parent, address: int = 0):
        """Records that `storage` shows the bytes of `parent` as another type."""
        source = self.sources.here()
        storage.id = self.instances
        self.instances += 1
        storage.kind = self._kind(storage, "none", source, parent.kind)
        self._add(_ALLOCATION.pack(ALLOCATE, 0, storage.kind, source, 0, address, parent.id))

    def release(self, instance: int):
        if self._open and instance >= 0:
            self._add(_MARK.pack(RELEASE, 0, instance, 0, 0))

    def instruction(self, operation: int, operands):
        """Records one instruction. `operands` are views."""
        self.instructions += 1
        self._executed[operation] += 1
        fields = [INSTRUCTION, 0, operation, self.sources.here(), 0]
        for view in operands:
            layout = view.layout
            index = layout.index
            if index < 0:
                index = self._pattern(layout)
            fields += (view.storage.id, index, view.offset)
        fields[1] = n = len(operands)
        self._buffer += _INSTRUCTIONS[n].pack(*fields)
        if len(self._buffer) > _BUFFER:
            self._flush()

    def loop(self, mark: int, name: str, kind: str, count: int, source: int):
        index = self._loops.setdefault((name, kind, count, source), len(self._loops))
        self._add(_MARK.pack(mark, 0, index, source, 0))

    def _add(self, record):
        self._buffer += record
        if len(self._buffer) > _BUFFER:
            self._flush()

    def _flush(self):
        self._bytes += len(self._buffer)
        if self._open:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(self.path)))
            self._file.write(self._buffer)
        self._buffer.clear()

    # The file

    def header(self, **described) -> dict:
        """Returns the header. `described` are the fields that only the runner knows."""
        return {
            **described,
            "files": self.sources.files,
            "sources": [list(s) for s in self.sources.sources],
            "tensors": [_tensor(*key) for key in self._kinds],
            "patterns": [[list(pair) for pair in pattern] for pattern in self._patterns],
            "operations": [
                {"name": n, "engine": e, "operands": list(o), "attributes": dict(a)} for n, e, o, a in self._operations
            ],
            "loops": [dict(zip(("name", "kind", "count", "source"), key)) for key in self._loops],
            "counts": {"instructions": self.instructions, "tensors": self.instances},
        }

    def write(self, header: dict):
        """Writes header and records to the path."""
        self._flush()
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # the records begin at a multiple of eight
        handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(self.path)), prefix=".nki_trace.")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(MAGIC + struct.pack("<II", VERSION, len(text)) + text + struct.pack("<Q", self._bytes))
                if self._file is not None:
                    self._file.seek(0)
                    while block := self._file.read(_BUFFER):
                        out.write(block)
            os.chmod(partial, 0o666 & ~_umask())
            os.replace(partial, self.path)
        except BaseException:
            os.unlink(partial)
            raise
        finally:
            self.close()

    def close(self):
        """Drops all records."""
        self._open = False
        if self._file is not None:
            self._file.close()
            self._file = None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _tensor(name, memory, dtype, shape, role, source, parent):
    kind = {"name": name, "memory": memory, "dtype": dtype, "shape": list(shape), "role": role, "source": source}
    if parent is not None:
        kind["view_of"] = parent
    return kind
