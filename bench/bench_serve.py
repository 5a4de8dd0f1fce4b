#!/usr/bin/env python3
"""`neuronmm serve` under load, beside llama.cpp's server on the same model: the same load generator, in turns.

    bench/bench_serve.py MODEL_DIR                                        ours alone
    bench/bench_serve.py MODEL_DIR --peer llama-server --gguf MODEL.gguf  and the peer

MODEL_DIR is what `neuronmm import MODEL.gguf` makes, perhaps quantized: each side may bring its best type. For every number of
concurrent requests (16 and 64), 128 random tokens in and 128 out, each round starts one server after the other, so that the
noise of a shared machine hits both; printed are medians over the rounds. Both have room for the keys and values of all requests
at once: the peer by -c, ours by --kv-cache-memory, whose default is for fewer. The overhead is what a server's throughput lacks of
`neuronmm bench --batch` at the same batch, where nobody is served. Then a prompt with a prefix of 2,000 tokens is asked
twice, with ends of their own: the second one's time to first token should be a tenth of the first's. Needs Python 3 alone.
"""

import argparse
import json
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = [
    ("output tokens/s", "output_throughput"),
    ("mean TTFT ms", "mean_ttft_ms"),
    ("p99 TTFT ms", "p99_ttft_ms"),
    ("mean TPOT ms", "mean_tpot_ms"),
    ("p99 ITL ms", "p99_itl_ms"),
    ("p99 E2EL ms", "p99_e2el_ms"),
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server that runs until the end of a `with`, and is ready at its begin."""

    def __init__(self, command, log):
        self.port = free_port()
        self.command = [*command, "--port", str(self.port)]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                sys.exit(f"{shlex.join(self.command)} does not serve: see {self.log}")
            time.sleep(0.05)
        return self

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/v1/models", timeout=10) as answer:
                return bool(json.load(answer).get("data"))
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run_json(command, path):
    """What `neuronmm bench` with these arguments writes as JSON."""
    result = subprocess.run([*command, "--json", str(path)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{shlex.join(command)}: {result.stderr or result.stdout}")
    report = json.loads(path.read_text())
    if report.get("failed"):
        print(f"  {report['failed']} requests failed: {report['errors']}", file=sys.stderr)
    return report


def load(options, server, *flags):
    command = [options.neuronmm, "bench", "--url", server.url, "--tokenizer", options.tokenizer, *map(str, flags)]
    return run_json(command, options.work / "load.json")


def servers(options, concurrent):
    """The command lines by name; the peer is told how many requests there will be, and how long."""
    threads = ["--threads", str(options.threads)] if options.threads else []
    found = {"neuronmm": [options.neuronmm, "serve", options.model, *threads, *shlex.split(options.serve_flags)]}
    if options.peer:
        context = concurrent * max(options.input + options.output + 32, options.prefix + 64 if concurrent == 1 else 0)
        found["llama.cpp"] = [options.peer, "-m", options.gguf, "-np", str(concurrent), "-c", str(context), *threads,
                              *shlex.split(options.peer_flags)]
    for name in options.without:
        found.pop(name)
    return found


def row(label, values, unit_format):
    cells = "".join(f"{format(value, unit_format):>14}" for value in values)
    ratio = f"{values[0] / values[1]:>10.2f}x" if len(values) == 2 and values[1] else ""
    print(f"  {label:<18}{cells}{ratio}")


def median_of(reports, key):
    return statistics.median(report[key] for report in reports)


def saturation(options, concurrent, report):
    found = {name: [] for name in servers(options, concurrent)}
    for round_number in range(options.rounds):
        for name, command in servers(options, concurrent).items():
            with Server(command, options.work / f"{name}.log") as server:
                found[name].append(
                    load(options, server, "--concurrency", concurrent, "--num-prompts", concurrent * options.requests,
                         "--prompt-tokens", options.input, "--new-tokens", options.output, "--seed", round_number))
    print(f"\n{concurrent} concurrent, {options.input} in, {options.output} out, {concurrent * options.requests} requests"
          f" x {options.rounds}")
    print(f"  {'':<18}" + "".join(f"{name:>14}" for name in found) + ("      ratio" if len(found) == 2 else ""))
    for label, key in FIGURES:
        row(label, [median_of(reports, key) for reports in found.values()], ".1f")
    report[str(concurrent)] = {name: {key: median_of(reports, key) for _, key in FIGURES}
                               for name, reports in found.items()}
    if "neuronmm" in found and not options.no_overhead:
        threads = ["--threads", str(options.threads)] if options.threads else []
        local = run_json([options.neuronmm, "bench", options.model, "--batch", str(concurrent), "--prompt-tokens",
                          str(options.input), "--new-tokens", str(options.output), "--runs", str(options.rounds), *threads],
                         options.work / "local.json")["generated_tokens_per_s"]
        served = median_of(found["neuronmm"], "output_throughput")
        print(f"  neuronmm bench --batch {concurrent}: {local:.1f} tokens/s; serving lacks {100 * (1 - served / local):.1f} % of it")
        report[str(concurrent)]["batch_tokens_per_s"] = local


def prefix(options, report):
    times = {}
    for name, command in servers(options, 1).items():
        with Server(command, options.work / f"{name}.log") as server:
            load(options, server, "--num-prompts", 1, "--prompt-tokens", 32, "--new-tokens", 2, "--seed", 99)  # all is loaded
            asked = load(options, server, "--num-prompts", 2, "--concurrency", 1, "--warmup", 0, "--prefix-tokens",
                         options.prefix, "--prompt-tokens", 16, "--new-tokens", 2)["requests"]
            times[name] = [request["ttft_ms"] for request in asked]
    print(f"\na prefix of {options.prefix} tokens, asked twice")
    for name, (first, second) in times.items():
        print(f"  {name:<12} TTFT {first:9.1f} ms, then {second:8.1f} ms: {100 * second / first:.1f} %")
    report["prefix"] = times


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("--peer", metavar="PROGRAM", help="llama-server")
    parser.add_argument("--gguf", metavar="FILE", help="the model that the peer serves")
    parser.add_argument("--peer-flags", default="", help="more flags of the peer, as one string")
    parser.add_argument("--serve-flags", default="--kv-cache-memory 2G",
                        help="more flags of `neuronmm serve`, as one string (%(default)s: the room that all requests take)")
    parser.add_argument("--without", action="append", default=[], choices=["neuronmm", "llama.cpp"])
    parser.add_argument("--tokenizer", metavar="DIR", help="MODEL_DIR unless it is said")
    parser.add_argument("--neuronmm", default=os.environ.get("NEURONMM", str(ROOT / "build/release/neuronmm")))
    parser.add_argument("--concurrency", default="16,64")
    parser.add_argument("--requests", type=int, default=4, help="for each of those that are concurrent")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--input", type=int, default=128)
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--prefix", type=int, default=2000, help="tokens; 0: not measured")
    parser.add_argument("--threads", type=int, default=0, help="of each server; 0: what it chooses")
    parser.add_argument("--no-overhead", action="store_true", help="without `neuronmm bench --batch`")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench_serve")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    if bool(options.peer) != bool(options.gguf):
        parser.error("--peer and --gguf go together")
    options.tokenizer = options.tokenizer or options.model
    return options


def main():
    options = parse()
    options.work.mkdir(parents=True, exist_ok=True)
    report = {}
    for concurrent in map(int, options.concurrency.split(",")):
        saturation(options, concurrent, report)
    if options.prefix:
        prefix(options, report)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
