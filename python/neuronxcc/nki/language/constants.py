"""`neuronxcc.nki.language.constants`."""

from nki.tracer import dtypes, errors


def sizeinbytes(dtype) -> int:
    found = dtypes.find(dtype)
    if found is None:
        errors.fail("sizeinbytes", f"dtype: expected an element type of nl, found {dtype!r}")
    return found.itemsize
