#!/usr/bin/env python3
"""Prefill and decode of a model on 1, 2, ... processes of this host, as ratios to one process.

  bench/bench_parallel.py build/release/neuronmm MODEL_DIR [--processes 1 2 4] [--link auto|messages]

Every run has the same number of cores in all: p processes of cores / p threads (or of 1, where there
are fewer cores). One line per run, with what the program printed; the first is the base.
"""
import argparse
import json
import os
import subprocess
import tempfile


def bench(program, model, processes, arguments):
    cores = len(os.sched_getaffinity(0))
    threads = max(1, cores // processes)
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [program, "bench", model, "--threads", str(threads), "--runs", str(arguments.runs),
                   "--prompt-tokens", str(arguments.prompt_tokens),
                   "--new-tokens", str(arguments.new_tokens), "--json", report.name]
        if processes > 1:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes)] + command
            command += ["--link", arguments.link, "--link-values", arguments.link_values]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result = json.load(open(report.name))
    return threads, result["context_encoding_model"]["throughput"], result["token_generation_model"]["throughput"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--link", default="auto")
    parser.add_argument("--link-values", default="fp32")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=64)
    arguments = parser.parse_args()
    base = None
    for processes in arguments.processes:
        threads, prefill, decode = bench(arguments.program, arguments.model, processes, arguments)
        base = base or (prefill, decode)
        print(f"{processes} processes x {threads} threads: prefill {prefill:.1f} tokens/s "
              f"({prefill / base[0]:.2f}x), decode {decode:.1f} tokens/s ({decode / base[1]:.2f}x)",
              flush=True)


if __name__ == "__main__":
    main()
