"""Adds registers to the `nki` of nki_check, which runs every instruction at once and has none. A register is then the
number that it holds, and an index that a kernel takes from one is checked as every other index is.
"""

import nki.isa as nisa
from nki._operands import check_tensor, read


def _register_alloc(x):
    check_tensor("register_alloc", "x", x)
    assert x.size == 1, f"a register takes one element, found {x}"
    return int(read("register_alloc", "x", x).reshape(()))


def install():
    nisa.register_alloc = _register_alloc
