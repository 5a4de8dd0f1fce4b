"""What an instruction's call returns."""

from __future__ import annotations


class NkiInstruction:
    """A recorded instruction. Dependencies between instructions follow from their operands; further ones, which only
    order what is independent, are accepted and not modelled."""

    __slots__ = ()

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        return self


DONE = NkiInstruction()
