"""Checks what the body of a loop of the device forbids (`nki.language.fori_loop`, `while_loop`).

NKI traces such a body once, as a region of its own. A tensor that a body makes ends with it, and
each instruction of a body has a name of its own. Source: NKI's guide "NKI 0.6.0 Dynamic Loop
Migration".
"""

from __future__ import annotations

from contextlib import contextmanager

from . import errors

ENDED = "was made in the loop's body and cannot be used outside it: make it before the loop and write it inside"


class Body:
    """An iteration of a body. `issued` lists its instructions."""

    __slots__ = ("call", "ended", "issued", "names")

    def __init__(self, call: str, names: set):
        self.call = call
        self.ended = False
        self.issued: list = []
        self.names = names


def ended_body(view) -> Body | None:
    """Returns the body that made the tensor of a view, if that body has ended."""
    body = view.storage.root.body
    return body if body is not None and body.ended else None


class Bodies:
    """The bodies that a run is in, and whether there has been any."""

    def __init__(self):
        self.innermost: Body | None = None
        self.any_begun = False
        self.unordered_regions = 0  # the regions of no_reorder around the current line

    @contextmanager
    def inside(self, call: str):
        outer = self.innermost
        self.any_begun = True
        body = self.innermost = Body(call, set(outer.names) if outer else set())
        try:
            yield body
        finally:
            body.ended = True
            self.innermost = outer

    def follow(self, name: str, attributes: tuple, views):
        """Notes an instruction. Raises an error if it uses a tensor that ended with its body."""
        if self.innermost is not None:
            # A sum in PSUM begins in the first iteration, which an attribute of the product says.
            fixed = attributes if name != "nc_matmul" else ()
            self.innermost.issued.append((name, fixed, *((view.layout, view.offset) for view in views)))
        for view in views:
            if (body := ended_body(view)) is not None:
                errors.fail(body.call, f"{view.describe()} {ENDED}")

    def check_name(self, call: str, name: str):
        """Raises an error if the body has an instruction of this name already."""
        body = self.innermost
        if body is None:
            return
        if name in body.names:
            errors.fail(call, f"name: the loop's body has an instruction {name!r} already; expected unique names in a body")
        body.names.add(name)
