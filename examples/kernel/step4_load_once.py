"""result = lhsT.T @ rhs. Each input is loaded once, in large transfers, and stays in SBUF."""

import nki
import nki.isa as nisa
import nki.language as nl

M_TILE, K_TILE, N_TILE = 128, 128, 512


def load(tensor):
    """Returns the tiles of 128 rows of `tensor`. One transfer brings the whole rows of a tile."""
    rows, columns = tensor.shape
    tiles = []
    for k in range(rows // K_TILE):
        tile = nl.ndarray((K_TILE, columns), dtype=tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=tensor[nl.ds(k * K_TILE, K_TILE), :])
        tiles.append(tile)
    return tiles


@nki.jit
def matmul(lhsT, rhs):
    K, M = lhsT.shape
    _, N = rhs.shape
    assert K % K_TILE == M % M_TILE == N % N_TILE == 0, "expected whole tiles"
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    lhs_tiles, rhs_tiles = load(lhsT), load(rhs)
    for m in range(M // M_TILE):
        rows = nl.ds(m * M_TILE, M_TILE)
        out = nl.ndarray((M_TILE, N), dtype=result.dtype, buffer=nl.sbuf)
        for n in range(N // N_TILE):
            columns = nl.ds(n * N_TILE, N_TILE)
            sums = nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum)
            for k in range(K // K_TILE):
                nisa.nc_matmul(dst=sums, stationary=lhs_tiles[k][:, rows], moving=rhs_tiles[k][:, columns])
            nisa.tensor_copy(dst=out[:, columns], src=sums)
        nisa.dma_copy(dst=result[rows, :], src=out)
    return result
