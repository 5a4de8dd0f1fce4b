"""Tells errors of the machine from those of a kernel."""

from __future__ import annotations

import errno

_ERRORS = {errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ESTALE}


def is_to_blame(error: BaseException | None) -> bool:
    """Returns whether a disk or the system raised the error or one behind it, for example while a
    kernel's file was read.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _ERRORS:
            return True
        error = error.__cause__ or error.__context__
    return False
