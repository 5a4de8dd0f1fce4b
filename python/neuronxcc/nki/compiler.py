"""Explicit allocation: the addresses of a tensor's blocks. The compiler's other directives change
nothing here.
"""

from __future__ import annotations

from math import prod

from nki.tracer import device as devices
from nki.tracer.layout import PSUM, SBUF

from .language.creation import Buffer


def _rotated(index, counts) -> int:
    """Returns the number of the physical tile for a block: each dimension of its index modulo its
    count, row-major.
    """
    number = 0
    for i, n in zip(index, counts):
        number = number * int(n) + i % int(n)
    return number


class sbuf:
    @staticmethod
    def mod_alloc(*, base_addr, base_partition=0, num_par_tiles=(), num_free_tiles=()):
        def address(index, shape, dtype):
            size = prod(shape[1:]) * dtype.itemsize
            return base_partition, base_addr + _rotated(index, num_free_tiles) * size

        return Buffer("sbuf", SBUF, address=address)

    @staticmethod
    def alloc(function):
        def address(index, shape, dtype):
            return function(index, shape[0], prod(shape[1:]) * dtype.itemsize)

        return Buffer("sbuf", SBUF, address=address)

    @staticmethod
    def auto_alloc():
        return Buffer("sbuf", SBUF)


class psum:
    @staticmethod
    def mod_alloc(*, base_bank, base_addr=0, base_partition=0, num_bank_tiles=(), num_par_tiles=(), num_free_tiles=()):
        def address(index, shape, dtype):
            bank = (base_bank + _rotated(index, num_bank_tiles)) % devices.BANKS
            return base_partition, bank * devices.BANK_BYTES + base_addr

        return Buffer("psum", PSUM, address=address)

    @staticmethod
    def alloc(function):
        def address(index, shape, dtype):
            bank, partition, byte = function(index, shape[0], prod(shape[1:]) * dtype.itemsize)
            return partition, bank * devices.BANK_BYTES + byte

        return Buffer("psum", PSUM, address=address)

    @staticmethod
    def auto_alloc():
        return Buffer("psum", PSUM)


def _unchanged(function=None, **options):
    return function if function is not None else _unchanged


skip_middle_end_transformations = enable_stack_allocator = force_auto_alloc = _unchanged


def no_reorder():
    """Does nothing, because the trace always has the program's order."""
    return None
