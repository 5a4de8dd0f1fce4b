#!/usr/bin/env python3
"""Checks commands on several hosts; see tests/slow/parallel_namespaces.sh."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import hosts
from hosts import ROOT, output_of

DEMO = ROOT / "models/demo"
WORK = ROOT / "build/parallel_namespaces"
LINK = pathlib.Path(__file__).with_name("link.py")
RATES = ("1gbit", "10gbit")
DELAYS_MS = (None, 0.05, 1)


def generate(processes, model, tokens):
    return output_of(processes, ["generate", model, "--prompt", "Once upon a time", "--max-new-tokens", tokens, "--temperature", 0])


# Returns the report of a perplexity run on several hosts. Activations are fp32, because sums in
# another order could be rounded to other bf16 numbers.
def perplexity(processes, limit):
    report = output_of(processes, ["perplexity", DEMO, DEMO / "evaluation.txt", "--limit", limit, "--activations", "fp32", "--json", "-"])
    return json.loads(report)


def link_between(first, second):
    """Measures TCP between two hosts.

    Returns the round trip in microseconds and the speed in Gbit/s, both as text.
    """
    server = subprocess.Popen([hosts.SCRIPT, "on", first, sys.executable, LINK, "serve"])
    said = hosts.network("on", second, sys.executable, LINK, "measure", first)
    assert server.wait(10) == 0
    return said.split()


# Checks that the link has the added delay. TCP itself takes some tens of microseconds for a round
# trip, and more while the cores are busy.
def check_link(name, delay_ms):
    trip, speed = link_between("nmm-0", "nmm-1")
    print(f"{name}: round trip {trip} us, {speed} Gbit/s", flush=True)
    asked = 2000 * delay_ms
    assert 0.8 * asked <= float(trip) <= 1.2 * asked + 200, f"expected a round trip of {asked} us and TCP's own, found {trip}"


# Checks the bytes that hosts send against the formula.
#
# - Per layer and token, two sums are exchanged as fp32 numbers. Each of p hosts sends 2 (p - 1) / p
#   of the values of a sum.
# - For each row of logits, every host but the first sends 4 bytes, and 12 bytes per block of its
#   columns. The host that has the target's column sends 8 bytes more.
# - The first host sends 26 bytes per row to each of the others.
#
# Connections and the measurement of the link are sent once per run. They are subtracted by
# comparing two runs, of which the longer has `tokens` more tokens.
def check_bytes(count):
    config = json.loads((DEMO / "config.json").read_text())
    before = hosts.sent_bytes(count)
    few = perplexity(count, 2)
    between = hosts.sent_bytes(count)
    more = perplexity(count, 10)
    after = hosts.sent_bytes(count)
    tokens, rows = (more[key] - few[key] for key in ("tokens", "scored_tokens"))
    sums = tokens * config["num_hidden_layers"] * 2 * config["hidden_size"] * 4 * 2 * (count - 1) // count
    step = 32 * -(-config["vocab_size"] // 4096)
    blocks = -(-config["vocab_size"] // step)
    overheads = []
    for i in range(count):
        own_blocks = blocks // count + (i < blocks % count)
        expected = sums + rows * (4 + 12 * own_blocks if i else 26 * (count - 1))
        counted = (after[i] - between[i]) - (between[i] - before[i])
        overheads.append(counted / expected - 1)
    # Several things make the count differ from the formula by a small share. Headers of Ethernet,
    # IP and TCP have 66 bytes per packet. Linux counts them once per up to 64 KiB that a network
    # card would split. Acknowledgements have the same size. MPI adds its own headers, and four
    # signs of life are sent per second. The bytes of the shorter run are subtracted. With a delay,
    # acknowledgements are combined with data more often in one run than in the other. Packets that
    # TCP sent again are subtracted as whole packets, although the last one may be shorter.
    assert all(-0.005 < overhead < 0.02 for overhead in overheads), overheads
    print(f"  bytes sent by each host: the formula's and {min(overheads):.2%} to {max(overheads):.2%} of headers")


def check_results(model):
    text, figure = generate(1, DEMO, 120), perplexity(1, 10)["perplexity"]
    text_of_model = generate(1, model, 256) if model else None
    for count in (2, 4):
        for rate in RATES:
            for delay_ms in DELAYS_MS:
                hosts.up(count, rate, f"{delay_ms}ms" if delay_ms else None)
                check_link(f"{count} hosts, {rate}, delay {delay_ms or 0} ms", delay_ms or 0)
                assert generate(count, DEMO, 120) == text
                assert abs(perplexity(count, 10)["perplexity"] - figure) <= 1e-5 * figure
                check_bytes(count)
                if model:
                    assert generate(count, model, 256) == text_of_model


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_compression():
    hosts.up(4, RATES[1])
    folders = []
    for count in (1, 2, 4):
        out = WORK / f"on_{count}" / "compressed"
        out.parent.mkdir()
        output_of(count, ["compress", DEMO, "-o", out, "--ratio", 0.2, "--calibration", DEMO / "calibration.txt"])
        folders.append(files_of(out))
    assert folders[0]["model.safetensors"]
    assert folders[0] == folders[1] == folders[2]
    print("compressed on 1, 2 and 4 hosts: the same bytes", flush=True)


class Evaluation(hosts.Running):
    """A perplexity run on `count` hosts that takes some seconds.

    The constructor returns while the run is at work.
    """

    def __init__(self, count, timeout_s):
        super().__init__(count, ["perplexity", DEMO, WORK / "long.txt", "--link-timeout", timeout_s], WORK / "log")
        self.wait_for(" left  perplexity", 60)  # the first progress line appears after some seconds

    def figure(self):
        lines = [line for line in self.text().splitlines() if line.startswith("perplexity     ")]
        assert len(lines) == 1, self.text()[-2000:]
        return lines[0]


def check_signal(count, number, said):
    timeout_s = 3
    running = Evaluation(count, timeout_s)
    host = f"nmm-{count - 1}"
    [victim] = hosts.programs_of(host)
    start = time.monotonic()
    os.kill(victim, number)
    try:
        code = running.end(timeout_s + 20)
    finally:
        if hosts.name_of(victim) == "neuronmm":
            os.kill(victim, signal.SIGKILL)
    text = running.text()
    assert code not in (0, None), (code, text[-2000:])
    assert said in text and host in text, text[-2000:]
    wait_for_nobody(count)
    print(f"{count} hosts, {signal.Signals(number).name} of a process: all ended after {time.monotonic() - start:.1f} s", flush=True)


def wait_for_nobody(count, timeout_s=10):
    end = time.monotonic() + timeout_s
    while left := [pid for i in range(count) for pid in hosts.programs_of(f"nmm-{i}")]:
        assert time.monotonic() < end, f"processes {left} still run"
        time.sleep(0.1)


# Checks that all processes end after the link to a host is lost for good. The launcher is not
# checked, because it waits for its own connection to the host as long as TCP tries.
def check_lost_link(count):
    timeout_s = 3
    running = Evaluation(count, timeout_s)
    host = f"nmm-{count - 1}"
    launchers = hosts.programs_of(host, "orted")
    start = time.monotonic()
    hosts.cable(host, "down")
    try:
        running.wait_for(f"on {host} has given no sign of life for {timeout_s} s", timeout_s + 5)
        wait_for_nobody(count)
        print(f"{count} hosts, a cable pulled for good: all ended after {time.monotonic() - start:.1f} s", flush=True)
    finally:
        hosts.cable(host, "up")
        running.end(1)
        for pid in launchers:
            if hosts.name_of(pid) == "orted":
                os.kill(pid, signal.SIGKILL)


def check_stalls(count):
    undisturbed = Evaluation(count, 20)
    assert undisturbed.end(120) == 0
    host = f"nmm-{count - 1}"
    stalls = {
        "a cable pulled": (lambda: hosts.cable(host, "down"), lambda: hosts.cable(host, "up")),
        "8 kbit/s": (lambda: hosts.network("rate", host, "8kbit"), lambda: hosts.network("rate", host, RATES[1])),
    }
    wanted = undisturbed.figure()
    for name, (begin, end) in stalls.items():
        running = Evaluation(count, 20)
        begin()
        time.sleep(5)
        assert running.process.poll() is None, "it was over before the stall"
        end()
        assert running.end(120) == 0, running.text()[-2000:]
        assert running.figure() == wanted
        print(f"{count} hosts, {name} for 5 s: the same result after {time.monotonic() - running.start:.1f} s", flush=True)


def check_failures():
    # Computing the perplexity of this text takes about 15 seconds on a fast CPU.
    (WORK / "long.txt").write_text((DEMO / "evaluation.txt").read_text() * 40)
    for count in (2, 4):
        hosts.up(count, RATES[1])
        check_stalls(count)
        check_signal(count, signal.SIGKILL, "exited on signal 9")
        check_signal(count, signal.SIGSTOP, "has given no sign of life for 3 s")
        check_lost_link(count)


# Checks that a model too large for one process runs on four. The limit applies to memory without a
# file (ulimit -d), because the system can take back the pages of mapped files.
def check_memory_limit():
    model, config = WORK / "large", json.loads((DEMO / "config.json").read_text())
    config |= {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8}
    (WORK / "large.json").write_text(json.dumps(config))
    subprocess.run([hosts.PROGRAM, "synthesize", "--config", WORK / "large.json", "-o", model], check=True, capture_output=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / name, model)
    weights = (model / "model.safetensors").stat().st_size
    limit = weights * 6 // 10
    words = ["generate", model, "--prompt", "Once upon a time", "--max-new-tokens", 16, "--temperature", 0]
    limited = ["bash", "-c", f'ulimit -d {limit // 1024} && exec "$0" "$@"']
    alone = subprocess.run(limited + hosts.command(1, words), capture_output=True, text=True, check=False)
    assert alone.returncode == 1 and "out of memory" in alone.stderr, (alone.returncode, alone.stderr[-2000:])
    hosts.up(4, RATES[1])
    on_four = subprocess.run([hosts.SCRIPT, "mpirun", "4", *limited, *hosts.command(1, words)],
                             capture_output=True, text=True, check=False)
    assert on_four.returncode == 0, on_four.stderr[-2000:]
    assert on_four.stdout == output_of(1, words)
    print(f"{weights / 1e6:.0f} MB of weights, {limit / 1e6:.0f} MB for each process: one says \"out of memory\", four answer", flush=True)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    check_memory_limit()
    check_failures()
    check_compression()
    check_results(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
