#!/usr/bin/env python3
"""Sends thousands of requests of mixed lengths to `neuronmm serve`. Some clients leave in the middle of an answer or of
their request, some stop in its middle for seconds, some read slowly, and some send bytes that are not a request.
Meanwhile the access log is renamed again and again, and its disk is full (faults.py). Every complete answer must equal
the text of `neuronmm generate`. At the end no request may be running, no block of keys and values may be in use,
and no thread or open file may be left over. The memory may grow by at most 24 MiB. See ../serve_soak.sh.

    soak.py [--minutes 5] [--requests 10000] [--clients 48] [--seed N]
"""

import argparse
import asyncio
import collections
import concurrent.futures
import itertools
import json
import pathlib
import random
import subprocess
import sys
import time

from faults import LOST_METRIC, LogFaults
from server import MODEL, PROGRAM, ROOT, Connection, Health, Server, events_of, post

SHARES = {"whole": 30, "stream": 33, "slow": 7, "cancel": 5, "disconnect": 10, "stall": 2, "malformed": 11, "too long": 2}
STALL_SECONDS = 120  # limit for every request, also with a slow reader
CONTEXT = 512        # of models/demo, in tokens
GROWTH_KIB = 24 * 1024  # allowed growth of the memory after the first fifth of the time

Prompt = collections.namedtuple("Prompt", "text max_tokens expected")

# Wrong bodies, with the statuses that are allowed.
BODIES = [
    (b"", {400}), (b"{", {400}), (b"[]", {400}), (b"null", {400}), (b'"x"', {400}), (b"\xff\xfe{}", {400}), (b"{}", {400}),
    (b'{"prompt": {}}', {400}), (b'{"prompt": "x", "max_tokens": -2}', {400}), (b'{"prompt": "x", "temperature": "hot"}', {400}),
    (b'{"prompt": "x", "prompt": "y"}', {400}), (b"[" * 100000, {400}), (b'{"prompt": [99999999]}', {400}),
    (b'{"prompt": "x", "n": 100000}', {400}), (b'{"prompt": "x", "model": "nobody"}', {404}),
    (b'{"prompt": "x", "stream": true, "logit_bias": {"a": 1}}', {400}),
]
# Requests that are not for a completion or are not HTTP, with the allowed statuses. 0 means that
# the connection is closed without an answer.
REQUESTS = [
    (b"NONSENSE\r\n\r\n", {400, 0}), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n", {400, 0}),
    (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}), (b"DELETE /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", {405, 404}),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100000 + b"\r\n\r\n", {400, 413, 431, 0}),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", {400, 413, 0}),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", {400, 0}),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {400, 0}),
]


def make_prompts(count, seed):
    """Returns parts of stories with the texts that the model continues them with. Some of the parts
    begin alike."""
    draw = random.Random(seed)
    words = (pathlib.Path(MODEL) / "evaluation.txt").read_text().split(" ")
    starts = [draw.randrange(len(words) - 200) for _ in range(count // 3 + 1)]
    wanted = []
    for _ in range(count):
        start = draw.choice(starts)
        text = " ".join(words[start:start + draw.choice([1, 3, 10, 40, 110, 150])]).strip()
        wanted.append((text, draw.choice([1, 2, 8, 24, 64, 100])))

    def generate(item):
        text, max_tokens = item
        command = [PROGRAM, "generate", MODEL, "--prompt", text, "--greedy", "--threads", "1", "--max-new-tokens", str(max_tokens)]
        made = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        return Prompt(text, max_tokens, made.rstrip("\n"))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(generate, wanted))


class Soak:
    def __init__(self, server, prompts, options):
        self.server, self.prompts, self.options = server, prompts, options
        self.draw = random.Random(options.seed)
        self.numbers = itertools.count()
        self.counts, self.failures = collections.Counter(), []
        self.begin = time.monotonic()
        self.memory_early = None
        self.answered_ids = set()

    def elapsed(self):
        return time.monotonic() - self.begin

    def done(self):
        enough = self.elapsed() >= self.options.minutes * 60 and self.counts["requests"] >= self.options.requests
        too_long = self.elapsed() >= max(self.options.minutes * 4, 10) * 60
        return enough or too_long or len(self.failures) >= 20

    def expect(self, good, what):
        if not good:
            self.failures.append(what)
            print(f"FAILED {what}", file=sys.stderr)

    def body(self, prompt, stream):
        fields = {"prompt": prompt.text, "max_tokens": prompt.max_tokens, "temperature": 0, "stream": stream}
        if stream and self.draw.random() < 0.5:
            fields["stream_options"] = {"include_usage": True}
        return json.dumps(fields).encode()

    def check_text(self, kind, prompt, text):
        self.counts["compared"] += 1
        self.expect(text.rstrip("\n") == prompt.expected,
                    f"{kind}: {prompt.text[-40:]!r} + {prompt.max_tokens}: {text!r} where {prompt.expected!r} is right")

    async def answered(self, connection, kind, prompt, stream, pause=0.0):
        """Sends one request, reads the answer to its end and checks it. A full queue (429) is no failure."""
        request_id = f"soak-{next(self.numbers)}"
        await connection.send(post("/v1/completions", self.body(prompt, stream), f"X-Request-Id: {request_id}\r\n"))
        status, headers = await connection.head()
        body = b""
        async for piece in connection.pieces(headers):
            body += piece
            if pause:
                await asyncio.sleep(pause)
        self.answered_ids.add(request_id)
        if status == 429:
            self.expect("retry-after" in headers, f"{kind}: status 429 without Retry-After")
            self.counts["queue full"] += 1
            await asyncio.sleep(0.2)
            return
        if status != 200:
            self.expect(False, f"{kind}: status {status}: {body[:200]}")
        elif stream:
            events = events_of(body)
            self.expect(events[-1] == "[DONE]", f"{kind}: the stream ends with {events[-1:]}")
            choices = [choice for event in events[:-1] for choice in json.loads(event).get("choices", [])]
            self.expect(choices[-1].get("finish_reason") in ("stop", "length"), f"{kind}: no finish_reason")
            self.check_text(kind, prompt, "".join(choice["text"] for choice in choices))
        else:
            self.check_text(kind, prompt, json.loads(body)["choices"][0]["text"])

    async def slow(self, prompt):
        connection = await Connection(self.server.port, receive_buffer=2048).open()
        await self.answered(connection, "slow", prompt, True, pause=self.draw.uniform(0.005, 0.05))
        await connection.close()

    async def cancel(self, prompt):
        """Leaves after some events, like a user who presses the stop button."""
        connection = await Connection(self.server.port).open()
        await connection.send(post("/v1/completions", self.body(prompt._replace(max_tokens=300), True)))
        _, headers = await connection.head()
        wanted = self.draw.randrange(12)
        async for _ in connection.pieces(headers):
            wanted -= 1
            if wanted < 0:
                break
        await self.leave(connection)

    async def disconnect(self, prompt):
        """Leaves after any byte of the request, or between the request and the answer."""
        request = post("/v1/completions", self.body(prompt._replace(max_tokens=300), self.draw.random() < 0.5))
        sent = self.draw.choice([0, len(request), self.draw.randrange(len(request))])
        connection = await Connection(self.server.port).open()
        await connection.send(request[:sent])
        await asyncio.sleep(self.draw.choice([0, 0.001, 0.02, 0.1]))
        await self.leave(connection)

    async def stall(self, prompt):
        """Announces a large body, sends a part of it, and waits for seconds before it leaves."""
        announced = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n"
        connection = await Connection(self.server.port).open()
        await connection.send(announced + self.body(prompt, False))
        await asyncio.sleep(self.draw.uniform(1, 10))
        await self.leave(connection)

    async def leave(self, connection):
        if self.draw.random() < 0.5:
            connection.abort()
        else:
            await connection.close()

    async def malformed(self, _):
        whole = self.draw.random() < 0.3
        data, allowed = self.draw.choice(REQUESTS if whole else BODIES)
        connection = await Connection(self.server.port).open()
        status = 0
        try:
            await connection.send(data if whole else post("/v1/completions", data))
            status, headers = await connection.head()
            async for piece in connection.pieces(headers):
                if not whole:
                    self.expect("message" in json.loads(piece)["error"], f"malformed: {data[:60]}: no error in {piece[:100]}")
        except (EOFError, OSError):
            pass
        self.expect(status in allowed, f"malformed: {data[:60]}: status {status}, expected {allowed}")
        await connection.close()

    async def too_long(self, prompt):
        connection = await Connection(self.server.port).open()
        body = json.dumps({"prompt": prompt.text + " the" * (2 * CONTEXT), "max_tokens": 1}).encode()
        await connection.send(post("/v1/completions", body))
        status, headers = await connection.head()
        answer = b"".join([piece async for piece in connection.pieces(headers)])
        self.expect(status == 400 and json.loads(answer)["error"]["code"] == "context_length_exceeded",
                    f"too long: {status} {answer[:200]}")
        await connection.close()

    async def client(self):
        """Sends one request after the other. The ordinary requests share a connection that stays open."""
        connection = None
        others = {"slow": self.slow, "cancel": self.cancel, "disconnect": self.disconnect, "stall": self.stall,
                  "malformed": self.malformed, "too long": self.too_long}
        while not self.done():
            kind = self.draw.choices(list(SHARES), list(SHARES.values()))[0]
            prompt = self.draw.choice(self.prompts)
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    if kind in others:
                        await others[kind](prompt)
                    else:
                        connection = connection or await Connection(self.server.port).open()
                        await self.answered(connection, kind, prompt, kind == "stream")
            except TimeoutError:
                self.expect(False, f"{kind}: no answer within {STALL_SECONDS} s")
                connection = None
            except Exception as error:  # an error of one client must not end the others
                self.expect(False, f"{kind}: {error!r}")
                connection = None
            self.counts[kind] += 1
            self.counts["requests"] += 1
        if connection:
            await connection.close()

    async def watch(self):
        """Prints a line now and then. Records the memory after a fifth of the time, when everything that
        is allocated once exists."""
        last_report = 0.0
        while not self.done():
            await asyncio.sleep(0.5)
            share = self.elapsed() / (self.options.minutes * 60)
            if share >= 0.2 and self.memory_early is None:
                self.memory_early = self.server.status("VmRSS")
            if self.elapsed() - last_report >= 30:
                last_report = self.elapsed()
                print(f"{last_report:6.0f} s {self.counts['requests']:7d} requests, {self.server.status('VmRSS') / 1024:.0f} MiB,"
                      f" {self.server.status('Threads')} threads", flush=True)

    async def run(self, log):
        await asyncio.gather(self.watch(), log.run(self.server.process.pid, self.done), *(self.client() for _ in range(self.options.clients)))


def report(soak, server, health, threads, descriptors):
    rest = server.rest()
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        soak.expect(rest[name] == 0, f"at the end {name} is {rest[name]}")
    time.sleep(1.5)  # the server notices closed connections within a second
    soak.expect(server.status("Threads") == threads, f"threads: {server.status('Threads')} at the end, {threads} at first")
    soak.expect(server.descriptors() <= descriptors, f"open files: {server.descriptors()} at the end, {descriptors} at first")
    early, last = soak.memory_early or 0, server.status("VmRSS")
    soak.expect(last - early <= GROWTH_KIB, f"memory has grown from {early} to {last} KiB")
    soak.expect(health.at(50) < 1000, f"{health}")
    soak.expect(soak.counts["requests"] >= soak.options.requests, f"only {soak.counts['requests']} requests")
    print(", ".join(f"{count} {kind}" for kind, count in soak.counts.items()))
    print(f"memory {early / 1024:.0f} MiB after a fifth, {last / 1024:.0f} at the end; {threads} threads; {health}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/serve_soak")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}", flush=True)
    prompts = make_prompts(options.prompts, options.seed)
    log = LogFaults(options.work)
    with Server(options.work / "soak.log", "--access-log", str(log.path)) as server:
        soak = Soak(server, prompts, options)
        server.rest()
        threads, descriptors = server.status("Threads"), server.descriptors()
        with Health(server) as health:
            asyncio.run(soak.run(log))
        report(soak, server, health, threads, descriptors)
        lost = int(server.metrics()[LOST_METRIC])
    for fault in log.faults_of_log(soak.answered_ids, lost)[:20]:
        soak.expect(False, fault)
    print(f"{log.periods} log files, {log.full_disks} times a full disk, {lost} lines lost and counted")
    soak.expect(server.exit_code == 0, f"after SIGTERM the exit code is {server.exit_code}")
    sys.exit(f"{len(soak.failures)} failures, seed {options.seed}" if soak.failures else 0)


if __name__ == "__main__":
    main()
