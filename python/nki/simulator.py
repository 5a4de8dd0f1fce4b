"""`nki.simulator`: how the vLLM Neuron plugin runs a kernel on NumPy (NKI_SIMULATOR=1).

Source: the plugin's page on NKI's CPU simulator. `nki.simulate` is the documented way.
"""

from __future__ import annotations

from .launch import Kernel, simulate


def simulate_kernel(func, args=(), kwargs=None, _lnc=1):
    """Runs `func` on `_lnc` cores with arrays and returns arrays of the same package."""
    function = func.func if isinstance(func, Kernel) else func
    return simulate(Kernel(function, (int(_lnc),) if int(_lnc) > 1 else ()))(*args, **(kwargs or {}))
