#!/usr/bin/env python3
"""Prefill and decode of a model on 1, 2, ... processes, as ratios to one process.

  bench/bench_parallel.py build/release/neuronmm MODEL_DIR [--processes 1 2 4] [--link auto|messages]
  bench/bench_parallel.py build/release/neuronmm MODEL_DIR --hosts 4 --rate 10gbit [--delay 0.05ms]

On this host every run has the same number of cores in all: p processes of cores / p threads (or of 1, where
there are fewer cores). With --hosts the processes have a host each, with a thread: namespaces with TCP at that
rate between them (tools/network_hosts.sh, as root); the base is one process of one thread. A line per run; the
first is the base. Each run of p processes also reads memory from p processes at once, which decoding cannot
outdo: the ratio of reading is what the ratio of decoding has to be compared with.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

NETWORK = str(pathlib.Path(__file__).resolve().parents[1] / "tools/network_hosts.sh")
READ_BYTES = 256 << 20
READ_SECONDS = 0.5


def read_memory(gate, speeds):
    memory = b"\2" * READ_BYTES  # never written pages would all be one page of zeros
    gate.wait()
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < READ_SECONDS:
        memory.find(b"\1")  # the C library's memchr: nothing but reading
        rounds += 1
    speeds.put(rounds * READ_BYTES / (time.perf_counter() - start))


def reading(processes):
    """Bytes per second that so many processes read together."""
    gate, speeds = multiprocessing.Barrier(processes), multiprocessing.Queue()
    readers = [multiprocessing.Process(target=read_memory, args=(gate, speeds)) for _ in range(processes)]
    for reader in readers:
        reader.start()
    total = sum(speeds.get() for _ in readers)
    for reader in readers:
        reader.join()
    return total


def sent_by_first_host():
    return int(subprocess.run([NETWORK, "bytes", "nmm-0"], check=True, capture_output=True, text=True).stdout)


def launcher(processes, arguments):
    if arguments.hosts:
        return [NETWORK, "mpirun", str(processes)] if processes > 1 else [NETWORK, "on", "nmm-0"]
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes)] if processes > 1 else []


def bench(processes, arguments):
    cores = len(os.sched_getaffinity(0))
    threads = 1 if arguments.hosts else max(1, cores // processes)
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = launcher(processes, arguments)
        command += [arguments.program, "bench", arguments.model, "--threads", str(threads), "--runs", str(arguments.runs),
                    "--prompt-tokens", str(arguments.prompt_tokens),
                    "--new-tokens", str(arguments.new_tokens), "--json", report.name]
        if processes > 1:
            command += ["--link", arguments.link, "--link-values", arguments.link_values]
        before = sent_by_first_host() if arguments.hosts else 0
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if arguments.quiet else None)
        if arguments.hosts:
            print(f"sent by the first host in all, measuring the link included: {(sent_by_first_host() - before) / 1e6:.1f} MB")
        result = json.load(open(report.name))
    return (threads, result["context_encoding_model"]["throughput"], result["token_generation_model"]["throughput"],
            reading(processes * threads))


def compare(arguments):
    base, ratios = None, {}
    for turn in range(arguments.turns):
        for processes in arguments.processes:
            threads, *figures = bench(processes, arguments)
            base = figures if processes == arguments.processes[0] else base
            ratio = [figure / of_base for figure, of_base in zip(figures, base)]
            ratios.setdefault(processes, []).append(ratio)
            print(f"{processes} processes x {threads} threads: prefill {figures[0]:.1f} tokens/s ({ratio[0]:.2f}x), "
                  f"decode {figures[1]:.1f} tokens/s ({ratio[1]:.2f}x), reading {figures[2] / 1e9:.1f} GB/s ({ratio[2]:.2f}x)",
                  flush=True)
    if arguments.turns > 1:
        for processes in arguments.processes[1:]:
            prefill, decode, read = (statistics.median(values) for values in zip(*ratios[processes]))
            print(f"{processes} processes, medians of {arguments.turns} turns: prefill {prefill:.2f}x, decode {decode:.2f}x, "
                  f"reading {read:.2f}x")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--processes", type=int, nargs="+")
    parser.add_argument("--hosts", type=int, help="so many hosts, made of namespaces")
    parser.add_argument("--rate", default="10gbit", help="of each host's link, as tc writes it")
    parser.add_argument("--delay", help="one way, added between any two hosts, as tc writes it")
    parser.add_argument("--link", default="auto")
    parser.add_argument("--link-values", default="fp32")
    parser.add_argument("--quiet", action="store_true", help="without the programs' progress")
    parser.add_argument("--turns", type=int, default=1, help="of all numbers of processes; then also the ratios' medians")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=64)
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    if not arguments.hosts:
        arguments.processes = arguments.processes or [1, 2]
        return compare(arguments)
    arguments.processes = arguments.processes or [count for count in (1, 2, 4, 8) if count <= arguments.hosts]
    if max(arguments.processes) > arguments.hosts:
        parser.error(f"--processes {max(arguments.processes)} needs as many --hosts, found {arguments.hosts}")
    subprocess.run([NETWORK, "up", str(arguments.hosts), arguments.rate] + ([arguments.delay] if arguments.delay else []), check=True)
    try:
        compare(arguments)
    finally:
        subprocess.run([NETWORK, "down"], check=True)


if __name__ == "__main__":
    main()
