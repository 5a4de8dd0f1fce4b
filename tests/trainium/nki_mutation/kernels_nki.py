"""Right kernels in the current dialect, in the styles of published ones. cases.py says how each is run."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scale_add(x, y):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(rows // 128):
        a = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[i * 128 : i * 128 + 128, 0:columns])
        nisa.dma_copy(dst=b, src=y[i * 128 : i * 128 + 128, 0:columns])
        nisa.tensor_scalar(dst=a, data=a, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, 0:columns], src=a)
    return out


@nki.jit
def matmul(lhsT, rhs):
    (K, M), N = lhsT.shape, rhs.shape[1]
    out = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in range(M // 128):
        total = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.psum)
        for k in range(K // 128):
            left = nl.ndarray((128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)
            right = nl.ndarray((128, N), dtype=rhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=left, src=lhsT[k * 128 : k * 128 + 128, m * 128 : m * 128 + 128])
            nisa.dma_copy(dst=right, src=rhs[k * 128 : k * 128 + 128, 0:N])
            nisa.nc_matmul(dst=total, stationary=left, moving=right)
        tile = nl.ndarray((128, N), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=total)
        nisa.dma_copy(dst=out[m * 128 : m * 128 + 128, 0:N], src=tile)
    return out


@nki.jit
def matmul_flags(lhsT, rhs):
    (K, M), N = lhsT.shape, rhs.shape[1]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, K // 128, M), dtype=lhsT.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, K // 128, N), dtype=rhs.dtype, buffer=nl.sbuf)
    for k in range(K // 128):
        nisa.dma_copy(dst=left[:, k, :], src=lhsT[k * 128 : k * 128 + 128, 0:M])
        nisa.dma_copy(dst=right[:, k, :], src=rhs[k * 128 : k * 128 + 128, 0:N])
    total = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    for k in range(K // 128):
        nisa.nc_matmul(dst=total, stationary=left[:, k, :], moving=right[:, k, :], accumulate=k > 0)
    tile = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=tile, op=nl.copy, data=total, scale=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def rmsnorm(x, w, epsilon=1e-2):
    rows, D = x.shape
    out = nl.ndarray((rows, D), dtype=x.dtype, buffer=nl.shared_hbm)
    weight = nl.ndarray((128, D), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=w.broadcast(0, 128))
    for i in range(rows // 128):
        tile = nl.ndarray((128, D), dtype=x.dtype, buffer=nl.sbuf)
        squares = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : i * 128 + 128, 0:D])
        nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / D, op1=nl.add, operand1=epsilon)
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weight, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, 0:D], src=tile)
    return out


@nki.jit
def softmax(x):
    rows, D = x.shape
    out = nl.ndarray((rows, D), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(rows // 64):
        tile = nl.ndarray((64, D), dtype=x.dtype, buffer=nl.sbuf)
        top = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nl.ndarray((64, D), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 64 : i * 64 + 64, 0:D])
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        nisa.activation_reduce(dst=powers, op=nl.exp, data=tile, bias=top, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=powers, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[i * 64 : i * 64 + 64, 0:D], src=tile)
    return out


@nki.jit
def layernorm(x):
    rows, D = x.shape
    out = nl.ndarray((rows, D), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, D), dtype=nl.float32, buffer=nl.sbuf)
    mean = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    squares = nl.ndarray((rows, D), dtype=nl.float32, buffer=nl.sbuf)
    variance = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_reduce(dst=mean, op=nl.add, data=tile, axis=1)
    nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1.0 / D)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=mean)
    nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_reduce(dst=variance, op=nl.add, data=squares, axis=1)
    nisa.activation(dst=variance, op=nl.rsqrt, data=variance, scale=1.0 / D)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=variance)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def attention(q, k, v):
    d, S = q.shape
    out = nl.ndarray((S, d), dtype=q.dtype, buffer=nl.shared_hbm)
    q_tile, k_tile, v_tile = nl.load(q), nl.load(k), nl.load(v)
    scores = nl.ndarray((S, S), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q_tile, moving=k_tile)
    top = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1)
    nisa.tensor_scalar(dst=top, data=top, op0=nl.multiply, operand0=-0.125)
    powers = nl.ndarray((S, S), dtype=q.dtype, buffer=nl.sbuf)
    total = nl.ndarray((S, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=powers, op=nl.exp, data=scores, bias=top, scale=0.125, reduce_op=nl.add, reduce_res=total)
    across = nl.ndarray((S, S), dtype=q.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=across, data=powers)
    powers_t = nl.ndarray((S, S), dtype=q.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=powers_t, src=across)
    product = nl.ndarray((S, d), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=powers_t, moving=v_tile)
    nisa.reciprocal(dst=total, data=total)
    result = nl.ndarray((S, d), dtype=q.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=product, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def exchanged_halves(x):
    rows, columns = x.shape
    half = rows // 2
    core = nl.program_id(0)
    shared = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(core * half, half), 0:columns])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=shared[nl.ds(core * half, half), 0:columns], src=tile)
    nisa.core_barrier(shared, cores=(0, 1))
    got = nl.ndarray((half, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=got, src=shared[nl.ds((1 - core) * half, half), 0:columns])
    nisa.dma_copy(dst=out[nl.ds(core * half, half), 0:columns], src=got)
    return out


@nki.jit
def sum_of_cores(x):
    rows, columns = x.shape
    half = rows // 2
    core = nl.program_id(0)
    parts = nl.ndarray((2, half, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((half, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(core * half, half), 0:columns])
    nisa.activation(dst=tile, op=nl.square, data=tile)
    nisa.dma_copy(dst=parts[core], src=tile)
    nisa.core_barrier(parts, cores=(0, 1))
    if core == 1:
        first = nl.ndarray((half, columns), dtype=nl.float32, buffer=nl.sbuf)
        second = nl.ndarray((half, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=first, src=parts[0])
        nisa.dma_copy(dst=second, src=parts[1])
        nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.add)
        nisa.dma_copy(dst=out, src=first)
    return out


@nki.jit
def cache_update(cache, new):
    rows, columns = new.shape
    tile = nl.ndarray((rows, columns), dtype=new.dtype, buffer=nl.sbuf)
    old = nl.ndarray((rows, columns), dtype=new.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=new)
    nisa.dma_copy(dst=old, src=cache[32 : 32 + rows, 0:columns])
    nisa.tensor_tensor(dst=tile, data1=tile, data2=old, op=nl.add)
    nisa.dma_copy(dst=cache[32 : 32 + rows, 0:columns], src=tile)
    return cache


@nki.jit
def fp8_matmul(a, b):
    (K, M), N = a.shape, b.shape[1]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((K, M), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((K, N), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    total = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    tile = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=total, op0=nl.multiply, operand0=0.25)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def transposed(x):
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(rows // 128):
        for j in range(columns // 128):
            tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            across = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
            flipped = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128 : i * 128 + 128, j * 128 : j * 128 + 128])
            nisa.nc_transpose(dst=across, data=tile)
            nisa.tensor_copy(dst=flipped, src=across)
            nisa.dma_copy(dst=out[j * 128 : j * 128 + 128, i * 128 : i * 128 + 128], src=flipped)
    return out


@nki.jit
def max_pool(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 4), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    top = nl.ndarray((rows, columns // 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_copy(dst=top, src=tile[0:rows, 0:columns:4])
    for offset in range(1, 4):
        nisa.tensor_tensor(dst=top, data1=top, data2=tile[0:rows, offset:columns:4], op=nl.maximum)
    nisa.dma_copy(dst=out, src=top)
    return out


@nki.jit
def swiglu(gate, up):
    rows, D = gate.shape
    out = nl.ndarray((rows, D), dtype=gate.dtype, buffer=nl.shared_hbm)
    for j in range(D // 64):
        g = nl.ndarray((rows, 64), dtype=gate.dtype, buffer=nl.sbuf)
        u = nl.ndarray((rows, 64), dtype=up.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=g, src=gate[0:rows, nl.ds(j * 64, 64)])
        nisa.dma_copy(dst=u, src=up[0:rows, nl.ds(j * 64, 64)])
        wide = nl.ndarray((rows, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=wide, op=nl.silu, data=g)
        nisa.tensor_tensor(dst=g, data1=wide, data2=u, op=nl.multiply)
        nisa.dma_copy(dst=out[0:rows, nl.ds(j * 64, 64)], src=g)
    return out


@nki.jit
def running_sum(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    ones = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.memset(dst=ones, value=1.0)
    nisa.tensor_tensor_scan(dst=total, data0=ones, data1=tile, initial=0.0, op0=nl.multiply, op1=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def rotary(x, cosine, sine):
    rows, D = x.shape
    half = D // 2
    out = nl.ndarray((rows, D), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, D), dtype=x.dtype, buffer=nl.sbuf)
    c = nl.ndarray((rows, half), dtype=nl.float32, buffer=nl.sbuf)
    s = nl.ndarray((rows, half), dtype=nl.float32, buffer=nl.sbuf)
    a = nl.ndarray((rows, half), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((rows, half), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((rows, D), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=c, src=cosine)
    nisa.dma_copy(dst=s, src=sine)
    nisa.tensor_tensor(dst=a, data1=tile[0:rows, 0:half], data2=c, op=nl.multiply)
    nisa.tensor_tensor(dst=b, data1=tile[0:rows, half:D], data2=s, op=nl.multiply)
    nisa.tensor_tensor(dst=result[0:rows, 0:half], data1=a, data2=b, op=nl.subtract)
    nisa.tensor_tensor(dst=a, data1=tile[0:rows, half:D], data2=c, op=nl.multiply)
    nisa.tensor_tensor(dst=b, data1=tile[0:rows, 0:half], data2=s, op=nl.multiply)
    nisa.tensor_tensor(dst=result[0:rows, half:D], data1=a, data2=b, op=nl.add)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def addressed(x, y):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    b = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4096))
    c = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf, address=(0, 8192))
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    nisa.tensor_scalar(dst=c, data=a, op0=nl.add, operand0=1.5)
    nisa.tensor_tensor(dst=c, data1=c, data2=b, op=nl.multiply)
    nisa.tensor_tensor(dst=c, data1=c, data2=a, op=nl.add)
    nisa.dma_copy(dst=out, src=c)
    return out


@nki.jit
def causal(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    masked = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.affine_select(dst=masked, pattern=[[-1, columns]], offset=0, channel_multiplier=1, on_true_tile=tile,
                       on_false_value=-1000.0, cmp_op=nl.greater_equal)  # fmt: skip
    nisa.dma_copy(dst=out, src=masked)
    return out


@nki.jit
def column_means(x):
    rows, columns = x.shape
    out = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    ones = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
    for i in range(rows // 128):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : i * 128 + 128, 0:columns])
        nisa.nc_matmul(dst=total, stationary=ones, moving=tile)
    result = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=total, op0=nl.multiply, operand0=1.0 / rows)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def depthwise(x, w):
    channels, length = x.shape
    taps = w.shape[1]
    out = nl.ndarray((channels, length - taps + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((channels, length), dtype=nl.float32, buffer=nl.sbuf)
    weight = nl.ndarray((channels, taps), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((channels, length - taps + 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=weight, src=w)
    nisa.memset(dst=total, value=0.0)
    for t in range(taps):
        nisa.scalar_tensor_tensor(dst=total, data=tile[0:channels, t : t + length - taps + 1], op0=nl.multiply,
                                  operand0=weight[0:channels, t : t + 1], op1=nl.add, operand1=total)  # fmt: skip
    nisa.dma_copy(dst=out, src=total)
    return out
