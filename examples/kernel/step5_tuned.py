"""result = lhsT.T @ rhs. Tuned: products begin as soon as the first rows of the inputs are there."""

import nki
import nki.isa as nisa
import nki.language as nl

M_TILE, K_TILE, N_TILE = 128, 128, 512
# PSUM has eight banks, and the sums of a tile take one.
BANKS = 8


@nki.jit
def matmul(lhsT, rhs):
    K, M = lhsT.shape
    _, N = rhs.shape
    assert K % K_TILE == M % M_TILE == N % N_TILE == 0, "expected whole tiles"
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    lhs_tiles, rhs_tiles = [], []
    for k in range(K // K_TILE):
        for tiles, tensor in ((lhs_tiles, lhsT), (rhs_tiles, rhs)):
            tile = nl.ndarray((K_TILE, tensor.shape[1]), dtype=tensor.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=tensor[nl.ds(k * K_TILE, K_TILE), :])
            tiles.append(tile)

    places = [(nl.ds(m, M_TILE), nl.ds(n, N_TILE)) for m in range(0, M, M_TILE) for n in range(0, N, N_TILE)]
    for first in range(0, len(places), BANKS):
        group = places[first : first + BANKS]
        sums = [nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum) for _ in group]
        for k in range(K // K_TILE):
            for (rows, columns), total in zip(group, sums):
                nisa.nc_matmul(dst=total, stationary=lhs_tiles[k][:, rows], moving=rhs_tiles[k][:, columns])
        for (rows, columns), total in zip(group, sums):
            tile = nl.ndarray((M_TILE, N_TILE), dtype=result.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=result[rows, columns], src=tile)
    return result
