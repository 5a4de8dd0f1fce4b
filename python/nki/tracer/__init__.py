"""What both dialects of NKI are built on: tensors, their memory, and the trace of what a kernel does.

    dtypes      element types; their raw bits in NumPy
    values      bits and numbers: rounding at each write
    layout      which elements a view has (interned), patterns of the trace
    storage     the memory of a tensor: bytes, what was written, aliases of another type
    tensor      views: shape, strides, offset, run-time index
    indexing    t[...], access patterns, reinterpretation; a dialect's own index objects hook in by `index_expression`
    indirect    values of views whose address a run-time index decides
    registers   whole numbers that are known at run time only
    session     one run: makes tensors, records instructions, reads and writes values; `session.current`
    trace       the trace file
    operators   ALU operators and activation functions
    operands    what instructions ask of their operands
    location    the user's line that is being executed
    errors      messages that begin with it
    device      limits of the generations

An instruction (nki.isa has all of them) does four things, in this order: it checks its operands, says with `session.reads` what
it reads, records itself with `session.emit`, computes if `session.values`, and says with `session.writes` what it has written.
A dialect adds its language (creation of tensors, loops, functions of tiles) and may put its own objects into
`tensor.BUFFERS` and its own assignment into `tensor.ASSIGN`.
"""
