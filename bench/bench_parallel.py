#!/usr/bin/env python3
"""Measures prefill and decode of a model on 1, 2, ... processes, and prints ratios to one process.

  bench/bench_parallel.py build/release/neuronmm MODEL_DIR [--processes 1 2 4] [--link auto|messages]
  bench/bench_parallel.py build/release/neuronmm MODEL_DIR --hosts 4 --rate 10gbit [--delay 0.05ms]
  bench/bench_parallel.py build/release/neuronmm MODEL_DIR --hosts 2 --serve 16

On one host, all runs use the same number of cores: p processes have cores / p threads each, but at least one.
With --hosts, every process has one thread and a host of its own. The hosts are network namespaces that are
connected by TCP at the given rate (tools/network_hosts.sh, as root). The program prints one line per run, and the
ratios compare with the first run. After each run, as many processes as the run had threads read memory at the
same time. Decoding cannot be faster than reading, so compare the ratio of decoding with the ratio of reading.
With --serve, the processes form a server. tools/load_completions.py on the first host sends it the given number of
requests at once, and four times as many requests in total.
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

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"
NETWORK = str(TOOLS / "network_hosts.sh")
READ_BYTES = 256 << 20
READ_SECONDS = 0.5
PORT = 18417  # of the server, on a host that runs nothing else


def read_memory(gate, speeds):
    memory = b"\2" * READ_BYTES  # pages that were never written would all be one page of zeros
    gate.wait()
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < READ_SECONDS:
        memory.find(b"\1")  # calls the C library's memchr, which only reads
        rounds += 1
    speeds.put(rounds * READ_BYTES / (time.perf_counter() - start))


def reading(processes):
    """Returns the bytes per second that this number of processes reads in total."""
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


def threads_of_each(processes, arguments):
    return 1 if arguments.hosts else max(1, len(os.sched_getaffinity(0)) // processes)


def command_of(processes, arguments, command, *flags):
    """Returns the command line of `neuronmm COMMAND MODEL_DIR` on this number of processes."""
    link = ["--link", arguments.link, "--link-values", arguments.link_values] if processes > 1 else []
    return [*launcher(processes, arguments), arguments.program, command, arguments.model, "--threads",
            str(threads_of_each(processes, arguments)), *flags, *link]


def bench(processes, arguments):
    """Returns the tokens per second of prefill and of decode, and the bytes per second of reading."""
    threads = threads_of_each(processes, arguments)
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = command_of(processes, arguments, "bench", "--runs", str(arguments.runs), "--prompt-tokens",
                             str(arguments.prompt_tokens), "--new-tokens", str(arguments.new_tokens), "--json", report.name)
        before = sent_by_first_host() if arguments.hosts else 0
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if arguments.quiet else None)
        if arguments.hosts:
            print(f"sent by the first host in all, measuring the link included: {(sent_by_first_host() - before) / 1e6:.1f} MB")
        result = json.load(open(report.name))
    return (result["context_encoding_model"]["throughput"], result["token_generation_model"]["throughput"],
            reading(processes * threads))


def served(processes, arguments):
    """Returns the tokens per second of all answers, and the mean time to the first token in ms."""
    command = command_of(processes, arguments, "serve", "--port", str(PORT), "--kv-cache-memory", "2G")
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        load = [*launcher(1, arguments), str(TOOLS / "load_completions.py"), f"http://127.0.0.1:{PORT}", "--concurrency",
                str(arguments.serve), "--requests", str(4 * arguments.serve), "--prompt-tokens", str(arguments.prompt_tokens),
                "--new-tokens", str(arguments.new_tokens), "--json", report.name]
        output = subprocess.DEVNULL if arguments.quiet else None
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output)
        try:
            while subprocess.run(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                if server.poll() is not None:
                    raise SystemExit(f"the server ended: {' '.join(command)}")
                time.sleep(1)  # the server is still loading the model
        finally:
            server.terminate()
            server.wait()
        result = json.load(open(report.name))
    return result["output_throughput"], result["mean_ttft_ms"]


# The figures of a run: name, unit, and the number by which the figure is divided to get that unit.
MEASURED = {
    bench: [("prefill", "tokens/s", 1), ("decode", "tokens/s", 1), ("reading", "GB/s", 1e9)],
    served: [("answers", "tokens/s", 1), ("time to first token", "ms", 1)],
}


def compare(arguments):
    measure = served if arguments.serve else bench
    base, ratios = None, {}
    for turn in range(arguments.turns):
        for processes in arguments.processes:
            figures = measure(processes, arguments)
            base = figures if processes == arguments.processes[0] else base
            ratio = [figure / of_base for figure, of_base in zip(figures, base)]
            ratios.setdefault(processes, []).append(ratio)
            found = (f"{name} {figure / size:.1f} {unit} ({times:.2f}x)"
                     for (name, unit, size), figure, times in zip(MEASURED[measure], figures, ratio))
            print(f"{processes} processes x {threads_of_each(processes, arguments)} threads: {', '.join(found)}", flush=True)
    if arguments.turns > 1:
        for processes in arguments.processes[1:]:
            medians = (f"{name} {statistics.median(values):.2f}x"
                       for (name, _, _), values in zip(MEASURED[measure], zip(*ratios[processes])))
            print(f"{processes} processes, medians of {arguments.turns} turns: {', '.join(medians)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="NEURONMM", help="program to run")
    parser.add_argument("model", metavar="MODEL_DIR", help="folder of the model")
    parser.add_argument("--processes", type=int, nargs="+", metavar="N",
                        help="numbers of processes (default 1 2; with --hosts 1, 2, 4 and 8, as far as there are hosts)")
    parser.add_argument("--hosts", type=int, metavar="N", help="make N hosts of network namespaces, which needs root")
    parser.add_argument("--rate", default="10gbit", help="rate of each host's link, as tc writes it (default %(default)s)")
    parser.add_argument("--delay", help="delay added one way between any two hosts, as tc writes it, such as 0.05ms")
    parser.add_argument("--link", default="auto", help="option --link of neuronmm (default %(default)s)")
    parser.add_argument("--link-values", default="fp32", help="option --link-values of neuronmm (default %(default)s)")
    parser.add_argument("--serve", type=int, metavar="N", help="measure a server with N requests at once")
    parser.add_argument("--quiet", action="store_true", help="hide the progress of the programs")
    parser.add_argument("--turns", type=int, default=1, help="repeat all numbers of processes; prints medians (default 1)")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of `neuronmm bench` (default %(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=512, help="tokens of the prompt (default %(default)s)")
    parser.add_argument("--new-tokens", type=int, default=64, help="tokens to decode (default %(default)s)")
    arguments = parser.parse_args()
    if not os.access(arguments.program, os.X_OK):
        parser.error(f"{arguments.program}: no such program; build it, or name another")
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
