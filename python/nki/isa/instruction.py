"""The return value of an instruction's call."""

from __future__ import annotations


class NkiInstruction:
    """A recorded instruction.

    Dependencies follow from the operands. `depends_on` accepts further dependencies, but they only
    order independent instructions and are not modelled.
    """

    __slots__ = ()

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        return self


DONE = NkiInstruction()
