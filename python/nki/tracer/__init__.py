"""The common base of both dialects of NKI: tensors, their memory, and the trace of a kernel's run.

    dtypes      element types and their raw bits in NumPy
    values      conversion between bits and numbers, with rounding at each write
    layout      the elements of a view (interned), patterns of the trace
    storage     the memory of a tensor: bytes, which bytes were written, aliases of another type
    tensor      views: shape, strides, offset, run-time index
    indexing    t[...], access patterns, reinterpretation; a dialect's own index objects have an
                attribute `index_expression`
    indirect    values of views whose address depends on a run-time index
    registers   whole numbers that are known only at run time
    session     one run: makes tensors, records instructions, reads and writes values;
                `session.current` is the run in progress
    trace       the trace file
    operators   ALU operators and activation functions
    operands    checks of instructions' operands
    location    the user's line that is being executed
    whole       the whole numbers that a kernel passes
    errors      error messages that begin with that line
    device      limits of the device generations

An instruction (see nki.isa) does five things in this order. It checks its operands, calls
`session.note_read` for what it reads, records itself with `session.emit`, computes its values if
`session.values`, and calls `session.note_write` for what it has written. A dialect adds its language
(creation of tensors, loops, functions of tiles). It may put its own objects into `tensor.BUFFERS`
and its own assignment into `tensor.ASSIGN`.
"""
