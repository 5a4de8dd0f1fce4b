"""Holds the run of a kernel: the device, the trace, whether values are computed, and the limits.

`session.current` is the run in progress. The instructions of both dialects use it: `allocate` makes
tensors, `emit` records an instruction, and `layout` interns layouts. `read` and `write` move values
if `values` is true.
"""

from __future__ import annotations

import time
from math import prod

import numpy as np

from . import bodies, releases
from . import device as devices
from . import carried, dtypes, errors, location, overlaps, perturbation, races, values, whole
from .layout import HBM, PSUM, SBUF, Layout
from .storage import Storage
from .tensor import Columns, Tensor
from .trace import Trace

current: Session | None = None

# The largest tensor in HBM of which each byte is known to be written or not while no values are
# computed. Of a larger one only a range is known. Assumed: it keeps the marks below 256 MiB.
_MOST_MARKED_BYTES = 256 << 20
# The largest tensor in elements. Equal to the limit of the reader of traces.
_MOST_ELEMENTS = 1 << 46


class Session:
    """The state of a run.

        device      a `device.Device`
        trace       a `trace.Trace`
        values      whether NumPy computes the numbers; otherwise only shapes are known
        grid        the launch grid, () for none; `program` is this core's position in it
        dialect     "nki" or "neuronxcc"
        release     the `releases.Release` whose rules hold
        state       data that engines keep between instructions, by name (accumulator registers)
    """

    def __init__(self, device, trace: Trace, values: bool = False, grid: tuple = (), dialect: str = "nki", seed: int = 0,
                 max_instructions: int = 20_000_000, max_seconds: float = 600.0):  # fmt: skip
        self.device = device
        self.trace = trace
        self.values = values
        self.grid = grid
        self.program = (0,) * len(grid)
        self.dialect = dialect
        self.release = releases.of_device(device.name)
        self.bodies = bodies.Bodies()
        self.random = np.random.default_rng(seed)
        self.state: dict = {}
        # The `cores.Group` that runs all programs of the grid. None: this program runs alone.
        self.group = None
        self.shared_tensors = 0
        self.notes: list[str] = []
        # The line where unwritten elements were first read.
        self.first_unwritten_read: str | None = None
        # Pairs (instruction, which elements) that the instruction in progress has read and that are
        # unwritten.
        self._unwritten_reads: list = []
        # By number: the names of the arguments, and the lines that write to some of them.
        self.arguments: dict = {}
        self.written_arguments: dict = {}
        # Objects that see every access (races.py, overlaps.py, carried.py).
        self.watches: list = []
        self.carried = None  # the carried.Watch of a kernel of the legacy dialect
        self._is_exact = False  # the instruction in progress, while roundings are perturbed
        self._layouts: dict = {}
        self._max_instructions = max_instructions
        self._max_seconds = max_seconds
        self._deadline = time.monotonic() + max_seconds
        self._next_limit_check = min(1024, max_instructions)

    def for_program(self, index: int) -> Session:
        """Returns a session for another program of the grid. It computes values, and its trace is
        dropped.
        """
        other = Session(
            self.device, Trace(), True, self.grid, self.dialect, index, self._max_instructions, self._max_seconds
        )
        other.release = self.release
        other.program = tuple(int(i) for i in np.unravel_index(index, self.grid))
        other.group = self.group
        return other

    def watch_races(self, core: int, marks: dict):
        """Finds unordered accesses of the cores of a launch. All of them share `marks`."""
        self.watches.append(races.Watch(self, core, marks))

    def watch_carried(self):
        """Finds values that iterations of `affine_range` loops hand on."""
        if self.carried is None:
            self.carried = carried.Watch(self)
            self.watches.append(self.carried)

    def note(self, text: str):
        """Adds a note for the user on how the kernel was run. Each text is kept once."""
        if text not in self.notes:
            self.notes.append(text)

    # Tensors

    def layout(self, dtype, memory: str, row: int, shape: tuple, strides: tuple) -> Layout:
        key = (dtype.trace, dtype, memory, row, shape, strides)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = Layout(dtype, memory, row, shape, strides)
        return found

    def argument(
        self, name: str, dtype, shape: tuple, data: np.ndarray | None = None, source: int | None = None
    ) -> Tensor:
        """Returns an input in HBM.

        `data` are its numbers, or raw bits if they have the raw type. `source` is its place in the
        user's files.
        """
        storage = Storage(self, name, HBM, dtype, shape)
        storage.body = None  # constants are part of the compiled kernel, wherever they are first used
        if self.values:
            raw = data if data.dtype == dtype.raw and dtype.kind != "float" else values.encode(data, dtype)
            storage.materialize(np.array(raw, copy=True))  # the caller keeps its numbers
            if self.group is not None:
                self.group.share(self, storage)
        storage.mark_all_written()
        self.trace.allocate(storage, "input", self.trace.sources.here() if source is None else source)
        self.arguments[storage.id] = name
        return Tensor(storage, storage.layout, 0)

    def allocate(self, shape, dtype, memory: str, name: str = "", address=None, call: str = "nki.language.ndarray",
                 shared: bool = False) -> Tensor:  # fmt: skip
        """Returns a new tensor. On chip its first axis is the partition.

        `address` is (first partition, byte in the partition). A `shared` tensor is in HBM, and all
        programs of the grid see one memory.
        """
        shape = self._checked_shape(shape, call)
        found = dtypes.find(dtype)
        if found is None:
            errors.fail(call, f"dtype: expected an element type of nki.language, found {dtype!r}")
        if memory != HBM:
            self._check_fits(shape, found, memory, call)
        _check_name(name, call)
        source = self.trace.sources.here()
        storage = Storage(self, name or self.trace.sources.names[source], memory, found, shape)
        place = -1
        if address is not None:
            place = self._checked_address(address, storage, call)
        if self.values:
            storage.materialize()
            if shared and self.group is not None:
                self.group.share(self, storage)
        elif shared and self.grid and max(self.grid) > 1:
            storage.mark_all_written()  # other programs may write it
        elif memory == HBM and storage.bytes <= _MOST_MARKED_BYTES:
            storage.track_written()
        self.trace.allocate(storage, "none" if memory != HBM else "scratch", source, place)
        return Tensor(storage, storage.layout, 0)

    def _checked_shape(self, shape, call):
        sizes = whole.numbers(call, "shape", (shape,) if isinstance(shape, (int, np.integer)) else shape)
        if any(n < 1 for n in sizes) or not sizes:
            errors.fail(call, f"shape: expected sizes of at least 1, found {list(sizes)}")
        if prod(sizes) > _MOST_ELEMENTS:
            errors.fail(call, f"shape: expected at most 2^46 elements, found {list(sizes)}")
        return sizes

    def _check_fits(self, shape, dtype, memory, call):
        if shape[0] > devices.PARTITIONS:
            errors.fail(call, f"{memory} has {devices.PARTITIONS} partitions, the shape {list(shape)} needs {shape[0]} "
                              f"({errors.PARTITION_COUNT})")  # fmt: skip
        per_partition = prod(shape[1:]) * dtype.itemsize
        capacity = devices.PSUM_BYTES if memory == PSUM else self.device.sbuf_bytes
        if per_partition > capacity:
            errors.fail(
                call,
                f"{memory} of {self.device.name} has {capacity} bytes in each partition, "
                f"{dtype} {list(shape)} needs {per_partition}",
            )

    def _checked_address(self, address, storage, call):
        if storage.memory == HBM or not isinstance(address, (tuple, list)) or len(address) != 2:
            errors.fail(call, f"address: expected (partition, byte) of a tensor on chip, found {address!r}")
        partition, byte = whole.numbers(call, "address", address)
        capacity = devices.PSUM_BYTES if storage.memory == PSUM else self.device.sbuf_bytes
        end = byte + storage.row * storage.dtype.itemsize
        if partition < 0 or partition + storage.shape[0] > devices.PARTITIONS or byte < 0 or end > capacity:
            errors.fail(
                call,
                f"address {(partition, byte)}: the tensor would take partitions up to {partition + storage.shape[0]} of "
                f"{devices.PARTITIONS} and bytes up to {end} of {capacity} of {storage.memory}",
            )
        storage.partition, storage.address = partition, byte
        if not any(isinstance(watch, overlaps.Watch) for watch in self.watches):
            self.watches.append(overlaps.Watch(self))
        return byte

    # Instructions

    def emit(self, name: str, engine: str, operands: tuple, views: list, attributes: tuple = ()):
        """Records an instruction. `operands` names the `views`. The index tensors of indirect views
        are added.
        """
        for view in views:
            if view.dynamic is not None:
                # Transfers add this attribute themselves.
                if not any(key == "indirect" for key, _ in attributes):
                    attributes += _indirect_attribute(engine, operands, views)
                operands, views = _with_indices(operands, views)
                break
        if self.bodies.any_begun:
            self.bodies.follow(name, attributes, views)
        trace = self.trace
        trace.instruction(trace.operation(name, engine, operands, attributes), views)
        self._is_exact = perturbation.active is not None and perturbation.is_exact(name, attributes)
        if trace.instructions >= self._next_limit_check:
            self.check_limits()

    def check_limits(self):
        done = self.trace.instructions
        if done >= self._max_instructions:
            errors.fail(
                "limit", f"the kernel has executed {done} instructions, which is the limit", errors.LimitReached
            )
        if time.monotonic() > self._deadline:
            self.out_of_time()
        self._next_limit_check = min(done + 1024, self._max_instructions)

    def out_of_time(self):
        errors.fail(
            "limit", f"the kernel has run for {self._max_seconds:g} seconds, which is the limit", errors.LimitReached
        )

    # Reading and writing

    # The following functions track elements that were never written. Reading a tensor without any
    # written element is an error at once. A tile may be written in part, because kernels read and
    # copy such tiles and later ignore the rest. Everything that is computed from unwritten elements
    # counts as unwritten.

    def note_read(self, view: Tensor, call: str, operand: str):
        """Notes that an instruction reads `view`, which must have been written. A sum in PSUM ends
        with a read.

        Returns which elements are unwritten, or None.
        """
        storage = view.storage
        unwritten_mask = storage.unwritten(view.layout, view.offset) if view.dynamic is None else False
        if unwritten_mask is True and self.values and self.dialect == "neuronxcc" and storage.memory != HBM:
            # Published kernels copy a tile that a mask has left empty, and store nothing of it.
            unwritten_mask = np.ones(view.shape, bool)
        if unwritten_mask is True:
            source = f"; unwritten memory was first read at {self.first_unwritten_read}" if self.first_unwritten_read else ""
            errors.fail(call, f"{operand}: {view.describe()} was never written{source}")
        if storage.memory == PSUM:
            storage.end_sum(view.layout, view.offset)
        for watch in self.watches:
            watch.read(view, call)
        if unwritten_mask is False:
            return None
        if self.first_unwritten_read is None:
            self.first_unwritten_read = (
                f"{location.describe()}: {call}: {operand}: {int(unwritten_mask.sum())} elements of {view.describe()}"
            )
        self._unwritten_reads.append((self.trace.instructions, unwritten_mask))
        return unwritten_mask

    def note_write(self, view: Tensor, where=..., unwritten_mask=None):
        """Notes that an instruction other than a matrix product writes `view`, or those of its
        elements that a mask selects.

        `unwritten_mask` selects the elements that come from unwritten ones. By default it follows
        from what the instruction has read.
        """
        if view.storage.memory == PSUM:
            view.storage.end_sum(view.layout, view.offset)
            view.storage.mark_filled(view.layout, view.offset)
        self.note_product(view, where, unwritten_mask)

    def note_product(self, view: Tensor, where=..., unwritten_mask=None):
        """Does the same as `note_write` for a matrix product, which continues the sum that it adds
        to.
        """
        storage = view.storage
        if storage.memory == HBM and storage.root.id in self.arguments and storage.root.id not in self.written_arguments:
            self.written_arguments[storage.root.id] = location.describe()
        if view.dynamic is not None:
            if not self.values:
                storage.mark_all_written()  # the place is unknown; with values the scatter has marked it
            return
        storage.mark_written(view.layout, view.offset, where)
        for watch in self.watches:
            watch.write(view)
        if self._unwritten_reads:
            found = self._unwritten_result(view) if unwritten_mask is None else unwritten_mask
            if found is not None:
                storage.mark_unwritten(view.layout, view.offset, found if where is ... else found & where)

    def _unwritten_result(self, view):
        """Returns which elements of `view` depend on unwritten elements.

        The result is by element if an operand has as many elements as `view`, else by partition,
        else all elements.
        """
        self._unwritten_reads = [h for h in self._unwritten_reads if h[0] == self.trace.instructions - 1]
        found = None
        for _, unwritten_mask in self._unwritten_reads:
            if unwritten_mask.size == view.layout.size:
                mine = unwritten_mask.reshape(view.shape)
            elif unwritten_mask.shape[0] == view.shape[0]:
                mine = unwritten_mask.reshape(len(unwritten_mask), -1).any(axis=1).reshape([-1] + [1] * (view.ndim - 1))
            else:
                mine = np.array(True)
            mine = np.broadcast_to(mine, view.shape)
            found = mine if found is None else found | mine
        return found

    def read(self, view: Tensor, skip: bool = False) -> np.ndarray:
        """Returns the numbers of a view: float32, or the integers themselves. `skip` is that of
        `Tensor.bits`.
        """
        return values.decode(view.bits(skip), view.layout.dtype)

    def write(self, view: Tensor, numbers: np.ndarray, skip: bool = False):
        """Rounds `numbers` to the view's type and stores them. They may have another shape with as
        many elements. `skip` is that of `Tensor.put`.
        """
        if perturbation.active is not None and view.layout.dtype is dtypes.float32 and not self._is_exact:
            numbers = perturbation.moved_by_one_ulp(np.asarray(numbers, np.float32))
        bits = values.encode(numbers, view.layout.dtype)
        view.put(bits.reshape(view.layout.shape) if bits.size == view.layout.size else bits, skip)


def _check_name(name, call):
    if name is None:
        return
    if not isinstance(name, str):
        errors.fail(call, f"name: expected a string, found {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        errors.fail(call, f"name: expected text in Unicode, found {name!r}")


def _indirect_attribute(engine, operands, views):
    """Returns an attribute with the operands that may be anywhere in their tensors.

    For offsets along the free dimension it also sets how many partitions share them, which depends
    on the engine.
    """
    found = []
    for name, view in zip(operands, views):
        if view.dynamic is None:
            continue
        if isinstance(view.dynamic, Columns):
            view.dynamic.group = 32 if engine == "tensor" else 16
        found.append(name)
    return (("indirect", " ".join(found)),) if found else ()


def _with_indices(operands, views):
    operands, views = list(operands), list(views)
    for view in tuple(views):
        index = view.dynamic.tensor if view.dynamic is not None else None
        if index is not None:
            count = sum(name.startswith("index") for name in operands)
            operands.append(f"index{count or ''}")
            views.append(index)
    return tuple(operands), views


def active(call: str) -> Session:
    """Returns the run in progress, for calls that are allowed only inside a kernel."""
    if current is None:
        errors.fail(call, "called outside of a kernel")
    return current


__all__ = ["HBM", "PSUM", "SBUF", "Session", "active", "current"]
