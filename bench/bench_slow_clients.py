#!/usr/bin/env python3
"""Measures whether clients of a running server notice many idle or slow sockets beside them.

    neuronmm serve MODEL_DIR --port 8000 &
    bench/bench_slow_clients.py http://127.0.0.1:8000

Normal clients ask for streamed completions, one after the other. Rounds without and with the bad sockets take turns.
A process of its own holds the bad sockets and replaces those that the server closes. There are equally many of each
kind. Some send nothing, half a head, or a byte of a head every few seconds. Others announce a body, and send none of it
or a byte every few seconds. The last two kinds never read their responses, or are idle after a request. With https, the
sockets that send nothing never finish the handshake. The table has the time to first token and its ratio. The exit code
is 1 if the p99 with bad sockets is more than --most-ratio times as long, or if a request failed.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import ssl
import statistics
import sys
import time
import urllib.parse

POST = "POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
DRIP_SECONDS = 3.0
SETTLE_SECONDS = 3.0  # after the last bad socket is open


def unchecked_tls():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class BadSockets:
    """Keeps `count` bad sockets open until the process is ended."""

    KINDS = ["silent", "half head", "dripping head", "no body", "dripping body", "never reads", "idle"]

    def __init__(self, url, count, ready):
        self.host, self.port, self.tls = url.hostname, url.port, url.scheme == "https"
        self.count, self.ready, self.opened = count, ready, 0

    async def run(self):
        await asyncio.gather(*(self.keep(self.KINDS[i % len(self.KINDS)]) for i in range(self.count)))

    async def keep(self, kind):
        first = True
        while True:
            try:
                tls = unchecked_tls() if self.tls and kind != "silent" else None
                reader, writer = await asyncio.open_connection(self.host, self.port, ssl=tls, limit=1024)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            if first:
                self.opened, first = self.opened + 1, False
                if self.opened == self.count:
                    self.ready.set()
            try:
                await self.hold(kind, reader, writer)
            except OSError:
                pass
            writer.close()

    async def hold(self, kind, reader, writer):
        head = POST.format(host=self.host)
        length = "Content-Length: 8388608\r\n\r\n"
        begin = {"half head": head, "dripping head": head, "no body": head + length, "dripping body": head + length,
                 "never reads": f"GET /openapi.json HTTP/1.1\r\nHost: {self.host}\r\n\r\n" * 40,
                 "idle": f"GET /health HTTP/1.1\r\nHost: {self.host}\r\n\r\n"}.get(kind, "")
        writer.write(begin.encode())
        while kind.startswith("dripping") and not reader.at_eof():
            await asyncio.sleep(random.uniform(0.5, 1.5) * DRIP_SECONDS)
            writer.write(b"A")
            await writer.drain()
        if kind == "never reads":
            writer.transport.pause_reading()
            await asyncio.sleep(3600)
        while await reader.read(1024):
            pass


def hold_bad_sockets(url, count, ready):
    asyncio.run(BadSockets(url, count, ready).run())


async def first_token_seconds(options, url, prompt):
    """Returns the time from the request to the first event of its stream, after reading the whole answer."""
    body = json.dumps({"prompt": prompt, "max_tokens": options.output, "stream": True, "ignore_eos": True}).encode()
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection(url.hostname, url.port,
                                                   ssl=unchecked_tls() if url.scheme == "https" else None)
    writer.write(f"{POST.format(host=url.hostname)}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    received, first = b"", None
    while piece := await reader.read(65536):
        received += piece
        if first is None and b"data: " in received:
            first = time.perf_counter() - begin
    writer.close()
    if not received.startswith(b"HTTP/1.1 200") or b"[DONE]" not in received:
        raise RuntimeError(received[:400].decode(errors="replace") or "the server closed the connection")
    return first


async def run_round(options, url):
    times, failures, left = [], [], iter(range(options.requests))

    async def client():
        for number in left:
            prompt = " ".join(random.choice(["sun", "moon", "cat", "tree", "sea"]) for _ in range(options.input)) + f" {number}"
            try:
                times.append(await asyncio.wait_for(first_token_seconds(options, url, prompt), 600))
            except (OSError, RuntimeError, asyncio.TimeoutError) as error:
                failures.append(repr(error))

    await asyncio.gather(*(client() for _ in range(options.clients)))
    return times, failures


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL", help="address of the server without /v1")
    parser.add_argument("--sockets", type=int, default=1000, help="bad sockets (default %(default)s)")
    parser.add_argument("--clients", type=int, default=16, help="normal clients (default %(default)s)")
    parser.add_argument("--requests", type=int, default=320, help="requests of each round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds without and with bad sockets (default %(default)s)")
    parser.add_argument("--input", type=int, default=64, help="words of each prompt (default %(default)s)")
    parser.add_argument("--output", type=int, default=16, help="tokens of each answer (default %(default)s)")
    parser.add_argument("--most-ratio", type=float, default=1.2, help="largest ratio of the p99 (default %(default)s)")
    return parser.parse_args()


def main():
    options = parse()
    url = urllib.parse.urlparse(options.url)
    _, failures = asyncio.run(run_round(options, url))  # warms the server up
    if failures:
        sys.exit(f"{options.url}: a request failed before the measurement: {failures[0]}; does the server run?")
    times, failures = {False: [], True: []}, []
    for _ in range(options.rounds):
        for bad in (False, True):
            holder = None
            if bad:
                ready = multiprocessing.Event()
                holder = multiprocessing.Process(target=hold_bad_sockets, args=(url, options.sockets, ready), daemon=True)
                holder.start()
                if not ready.wait(60):
                    sys.exit(f"{options.url}: expected {options.sockets} connections within 60 s, found fewer")
                time.sleep(SETTLE_SECONDS)
            measured, failed = asyncio.run(run_round(options, url))
            times[bad].append(measured)
            failures += failed
            if holder:
                holder.kill()
                holder.join()
    print(f"{options.clients} clients, medians of {options.rounds} rounds of {options.requests} requests")
    print(f"{'TTFT ms':10}{'alone':>12}{f'+{options.sockets} sockets':>16}{'ratio':>9}")
    ratio = 0.0
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        alone, beside = (1e3 * statistics.median(percentile(one, share) for one in times[bad]) for bad in (False, True))
        ratio = beside / alone
        print(f"{name:10}{alone:12.1f}{beside:16.1f}{ratio:8.2f}x")
    print(f"{len(failures)} requests failed" + (f", the first with {failures[0]}" if failures else ""))
    sys.exit(1 if failures or ratio > options.most_ratio else 0)


if __name__ == "__main__":
    main()
