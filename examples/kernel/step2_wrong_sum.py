"""result = lhsT.T @ rhs. Second attempt: each product gets sums of its own, so the last one alone is written."""

import nki
import nki.isa as nisa
import nki.language as nl

M_TILE, K_TILE, N_TILE = 128, 128, 512


@nki.jit
def matmul(lhsT, rhs):
    K, M = lhsT.shape
    _, N = rhs.shape
    assert K % K_TILE == M % M_TILE == N % N_TILE == 0, "expected whole tiles"
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for m in range(M // M_TILE):
        for n in range(N // N_TILE):
            rows, columns = nl.ds(m * M_TILE, M_TILE), nl.ds(n * N_TILE, N_TILE)
            for k in range(K // K_TILE):
                sums = nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum)
                lhs_tile = nl.ndarray((K_TILE, M_TILE), dtype=lhsT.dtype, buffer=nl.sbuf)
                rhs_tile = nl.ndarray((K_TILE, N_TILE), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=lhs_tile, src=lhsT[nl.ds(k * K_TILE, K_TILE), rows])
                nisa.dma_copy(dst=rhs_tile, src=rhs[nl.ds(k * K_TILE, K_TILE), columns])
                nisa.nc_matmul(dst=sums, stationary=lhs_tile, moving=rhs_tile)
            tile = nl.ndarray((M_TILE, N_TILE), dtype=result.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=sums)
            nisa.dma_copy(dst=result[rows, columns], src=tile)
    return result
