"""Starts `nki.run` for `neuronmm nki`, as a script and without its package:

    python3 -P start.py KERNEL ...

The exit status is 121 if this Python cannot run kernels, so that the caller tries another one, and
122 if the kernel is to blame for the failure and not the machine. The kernel has no network if the system permits a namespace for that.
"""

import sys

CANNOT_RUN_KERNELS, WRONG_KERNEL = 121, 122
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # flags of unshare(2)


def leave_network():
    """Moves this process into a network namespace of its own, which reaches nothing. A user without
    rights needs a user namespace as well. The process must have one thread, so that this comes
    before the import of NumPy. Returns whether it worked.
    """
    import ctypes
    import os

    libc = ctypes.CDLL(None)
    if libc.unshare(_NEW_NETWORK) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:
            pass  # files of this user stay readable without the map
    return True


def main():
    if sys.version_info < (3, 11):
        return CANNOT_RUN_KERNELS
    leave_network()
    try:
        import numpy  # noqa: F401
    except ImportError:
        return CANNOT_RUN_KERNELS
    from nki import run

    if run.names_legacy_package(sys.argv[1:]):
        import neuronxcc.nki  # noqa: F401
    return run.main(wrong_kernel=WRONG_KERNEL)


if __name__ == "__main__":
    sys.exit(main())
