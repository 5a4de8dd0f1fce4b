"""Right kernels in the legacy dialect, in the styles of published ones. cases.py says how each is run."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def add_programs(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    j = nl.program_id(1) * 64 + nl.arange(64)[None, :]
    x = nl.load(a[i, j])
    y = nl.load(b[i, j])
    nl.store(out[i, j], value=x + y * 0.5)
    return out


@nki.jit
def matmul(lhsT, rhs):
    (K, M), N = lhsT.shape, rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // 128):
        total = nl.zeros((128, N), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(K // 128):
            left = nl.load(lhsT[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
            right = nl.load(rhs[k * 128 : (k + 1) * 128, 0:N])
            total += nl.matmul(left, right, transpose_x=True)
        tile = nl.copy(total, dtype=out.dtype)
        nl.store(out[m * 128 : (m + 1) * 128, 0:N], value=tile)
    return out


@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    for i in nl.affine_range(rows // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128, 0:columns])
        top = nl.max(tile, axis=1, keepdims=True)
        powers = nl.exp(tile - top)
        total = nl.sum(powers, axis=1, keepdims=True)
        nl.store(out[i * 128 : (i + 1) * 128, 0:columns], value=powers / total)
    return out


@nki.jit
def transposed(x, rows=6, columns=8):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(x.shape[0])[:, None]
    tile = nl.load(x)
    flipped = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(rows):
        for j in nl.affine_range(columns):
            flipped[p, j * rows + i] = nl.copy(tile[p, i * columns + j])
    nl.store(out, value=flipped)
    return out


@nki.jit
def average_pool(x):
    C, H, W = x.shape
    out = nl.ndarray((C, H // 2, W // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    p, i, j, k, n = nl.mgrid[0:C, 0 : H // 2, 0 : W // 2, 0:2, 0:2]
    total = nl.sum(tile[p, 2 * i + k, 2 * j + n], axis=[3, 4])
    nl.store(out, value=total * 0.25)
    return out


@nki.jit
def scaled_norm(x, g):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i, j, one = nl.arange(128)[:, None], nl.arange(columns)[None, :], nl.arange(1)[:, None]
    weight = nl.load(g.reshape((1, columns))[one, j])
    for t in nl.affine_range(rows // 128):
        tile = nl.load(x[t * 128 + i, j])
        mean = nl.sum(nl.square(tile), axis=1) / columns
        root = nl.rsqrt(mean + 0.01)
        result = nl.multiply(tile, root)
        wide = weight.broadcast_to((128, columns))
        result[...] = nl.multiply(result, wide)
        nl.store(out[t * 128 + i, j], value=result)
    return out
