#!/usr/bin/env python3
"""Measures how many instructions of a kernel's trace `neuronmm nki` simulates per second.

    bench/simulator_rate.py PROGRAM [OTHER ...] [--runs 15]

The kernel is a matmul in bf16 with tiles of 128 x 512. In the case "inner" the loads are in the
inner loop. In the case "hoisted" a whole row of tiles of the stationary matrix is loaded at once.
Several programs are run in turns. The time that a program takes to start is measured separately and
subtracted.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

KERNELS = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def inner(lhsT, rhs):
    return product(lhsT, rhs, False)


@nki.jit
def hoisted(lhsT, rhs):
    return product(lhsT, rhs, True)


def product(lhsT, rhs, hoists):
    (k, m), n = lhsT.shape, rhs.shape[1]
    out = nl.ndarray((m, n), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    for i in range(0, m, 128):
        if hoists:
            row = nl.ndarray((128, k // 128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)
            for l in range(0, k, 128):
                nisa.dma_copy(dst=row[:, l // 128, :], src=lhsT[l : l + 128, i : i + 128])
        for j in range(0, n, 512):
            sums = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for l in range(0, k, 128):
                if hoists:
                    a = row[:, l // 128, :]
                else:
                    a = nl.ndarray((128, 128), dtype=lhsT.dtype, buffer=nl.sbuf)
                    nisa.dma_copy(dst=a, src=lhsT[l : l + 128, i : i + 128])
                b = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=b, src=rhs[l : l + 128, j : j + 512])
                nisa.nc_matmul(dst=sums, stationary=a, moving=b)
            tile = nl.ndarray((128, 512), dtype=lhsT.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=sums)
            nisa.dma_copy(dst=out[i : i + 128, j : j + 512], src=tile)
    return out
'''
CASES = (("inner", 4096, 99328), ("inner", 16384, 397312), ("hoisted", 4096, 68608))  # kernel, M, instructions


def seconds(command):
    """Runs a command and returns its user CPU time and its wall time in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", metavar="PROGRAM", nargs="+", help="neuronmm programs to compare; the first writes the traces")
    parser.add_argument("--runs", type=int, default=15, help="timed runs of each program (default 15)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "matmul.py")
        source.write_text(KERNELS)
        for kernel, rows, instructions in CASES:
            trace = f"{folder}/{kernel}{rows}.trace"
            subprocess.run([arguments.programs[0], "nki", f"{source}:{kernel}", "--arg", f"lhsT=bf16[8192,{rows}]", "--arg",
                            "rhs=bf16[8192,8192]", "--save-trace", trace], stdout=subprocess.DEVNULL, check=True)
            starts, runs = {}, {}
            for _ in range(arguments.runs):
                for program in arguments.programs:
                    starts.setdefault(program, []).append(seconds([program, "--version"]))
                    runs.setdefault(program, []).append(seconds([program, "nki", "--from-trace", trace]))
            for program in arguments.programs:
                (user, clock), (user0, clock0) = ([statistics.median(kind) for kind in zip(*times[program])] for times in (runs, starts))
                shortest, longest = (choice(u for u, _ in runs[program]) for choice in (min, max))
                print(f"{kernel} {rows} x 8192 x 8192, {program}: user {user * 1e3:.0f} ms ({shortest * 1e3:.0f}-{longest * 1e3:.0f}), "
                      f"clock {clock * 1e3:.0f} ms; million instructions per second {instructions / (user - user0) / 1e6:.2f} "
                      f"of user time, {instructions / (clock - clock0) / 1e6:.2f} by the clock")


if __name__ == "__main__":
    main()
