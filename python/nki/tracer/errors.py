"""Errors of kernels. A message begins with the line of the user's file and the call on that line.
"""

from __future__ import annotations

# Codes of the vendor's messages for the same mistake (pages "NKI API Errors" and "Neuron Compiler Error
# Codes"). A user who looks for the code finds the vendor's page.
UNWRITTEN_OUTPUT = "err_tensor_output_not_written_to"
OUT_OF_BOUNDS = "err_tensor_access_out_of_bound"
SCALE_TYPE = "err_activation_scale_invalid_type"
BIAS_TYPE = "err_activation_bias_invalid_type"
PARTITION_COUNT = "err_num_partition_exceed_arch_limit"
PARTITION_MISMATCH = "err_num_partition_mismatch"
MEMORY = "err_unsupported_memory"
DIMENSION_SIZE = "err_size_of_dimension_exceed_arch_limit"
TRUTH_VALUE = "err_ambiguous_tensor_truth_value"
NOT_RETURNED = "err_mutable_parameter_not_returned"
INVALID_ACCESS = "NCC_INLA001"


class NkiValidationError(Exception):
    """A kernel broke a rule of the hardware or of the language. The text begins with the file and
    line.
    """


class UnknownCall(NkiValidationError, AttributeError):
    """A name of the NKI language that this tracer does not have. `hasattr` returns False, and
    `import` fails.
    """


class LimitReached(NkiValidationError):
    """The kernel has reached a limit on instructions or seconds."""


class ValuesNeeded(NkiValidationError):
    """The kernel's next step depends on numbers, but the run computes no values."""


def fail(call: str, text: str, kind: type = NkiValidationError):
    """Raises `file:line: call: text` for the innermost line of the user's files."""
    from . import location  # location imports the errors of this module

    raise kind(f"{location.describe()}: {call}: {text}")
