#!/usr/bin/env python3
"""Tests two `neuronmm serve` behind nginx with deploy/nginx.conf, while 16 clients send requests all the time.
The test kills one server, starts it again and drains it. Then it stops both servers. See ../serve_nginx.sh.

    balance.py [--seconds 4] [--clients 16] [--seed N]
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/slow/serve_soak"))
from server import MODEL, PROGRAM, Connection, Server, events_of, free_port, post  # noqa: E402

WORK = ROOT / "build/serve_nginx"
FAIL_TIMEOUT = 5  # in seconds, as in deploy/nginx.conf
TOKENS = [8, 60, 200]

Prompt = collections.namedtuple("Prompt", "text max_tokens expected")
# A status of 0 means that a stream broke off. `began` and `ended` are times on this process's
# clock.
Outcome = collections.namedtuple("Outcome", "stream status began ended")


class Nginx:
    """nginx with deploy/nginx.conf, in which only the ports and the path of the log are changed."""

    def __init__(self, ports):
        self.port = free_port()
        self.log = WORK / "access.log"
        text = (ROOT / "deploy/nginx.conf").read_text()
        for old, new in [("server 127.0.0.1:8001 ", f"server 127.0.0.1:{ports[0]} "),
                         ("server 127.0.0.1:8002 ", f"server 127.0.0.1:{ports[1]} "),
                         ("listen 127.0.0.1:8000;", f"listen 127.0.0.1:{self.port};"),
                         ("access_log /var/log/nginx/neuronmm.log ", f"access_log {self.log} ")]:
            assert text.count(old) == 1, f"deploy/nginx.conf: expected one {old!r}, found {text.count(old)}"
            text = text.replace(old, new)
        assert f"fail_timeout={FAIL_TIMEOUT}s" in text
        (WORK / "neuronmm.conf").write_text(text)
        temporary = "".join(f"{kind}_temp_path {WORK}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;\n" if os.geteuid() == 0 else ""
        (WORK / "main.conf").write_text(
            f"daemon off;\n{user}worker_processes 2;\npid {WORK}/nginx.pid;\nerror_log {WORK}/error.log;\n"
            f"events {{ worker_connections 512; }}\nhttp {{\n{temporary}include {WORK}/neuronmm.conf;\n}}\n")
        self.command = ["nginx", "-p", str(WORK), "-c", str(WORK / "main.conf")]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    sys.exit(f"nginx does not listen: see {WORK}/error.log")
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]


class Clients:
    """Clients that send one request after the other until the time is over."""

    def __init__(self, port, prompts, seed):
        self.port, self.prompts, self.draw = port, prompts, random.Random(seed)
        self.outcomes, self.wrong = [], []

    async def request(self, prompt, stream):
        body = json.dumps({"prompt": prompt.text, "max_tokens": prompt.max_tokens, "temperature": 0, "stream": stream}).encode()
        began, connection, answer = time.monotonic(), await Connection(self.port).open(), b""
        status = 0
        try:
            await connection.send(post("/v1/completions", body))
            status, headers = await connection.head()
            async for piece in connection.pieces(headers):
                answer += piece
            self.check(prompt, stream, status, answer)
        except (EOFError, OSError) as error:
            if not stream or status != 200:
                self.wrong.append(f"broken off with status {status}: {error!r}")
            status = 0
        await connection.close()
        self.outcomes.append(Outcome(stream, status, began, time.monotonic()))

    def check(self, prompt, stream, status, answer):
        if status != 200:
            error = json.loads(answer).get("error", {})
            if status not in (502, 503, 504) or not error.get("message") or not error.get("code"):
                self.wrong.append(f"status {status}: {answer[:200]}")
            return
        if not stream:
            text = json.loads(answer)["choices"][0]["text"]
        else:
            events = events_of(answer)
            if not events or events[-1] != "[DONE]":
                self.wrong.append(f"a complete response without [DONE]: {answer[-200:]}")
                return
            text = "".join(choice["text"] for event in events[:-1] for choice in json.loads(event).get("choices", []))
        if text.rstrip("\n") != prompt.expected:
            self.wrong.append(f"{prompt.text[-40:]!r}: {text!r} where {prompt.expected!r} is right")

    async def run(self, count, seconds, in_the_middle=None):
        """Returns the outcomes of `seconds` of load. Calls `in_the_middle` after half of the time."""
        self.outcomes, stop = [], time.monotonic() + seconds

        async def client():
            while time.monotonic() < stop:
                await self.request(self.draw.choice(self.prompts), self.draw.random() < 0.5)

        async def event():
            await asyncio.sleep(seconds / 2)
            if in_the_middle:
                in_the_middle()

        async with asyncio.timeout(120 + seconds):
            await asyncio.gather(event(), *(client() for _ in range(count)))
        return self.outcomes


class Trial:
    def __init__(self, options):
        self.options = options
        self.servers = [Server(WORK / f"serve{number}.log", "--threads", "1", "--served-model-name", "demo") for number in (1, 2)]
        self.nginx = Nginx([server.port for server in self.servers])
        self.clients = Clients(self.nginx.port, make_prompts(options.seed), options.seed)

    def load(self, in_the_middle=None):
        """Returns the outcomes of a load and the lines of nginx's log for them."""
        before = len(self.nginx.lines()) if self.nginx.log.exists() else 0
        outcomes = asyncio.run(self.clients.run(self.options.clients, self.options.seconds, in_the_middle))
        assert not self.clients.wrong, self.clients.wrong[:5]
        deadline = time.monotonic() + 10  # nginx logs a request when it sees the connection's end
        while len(self.nginx.lines()) < before + len(outcomes) and time.monotonic() < deadline:
            time.sleep(0.05)
        return outcomes, self.nginx.lines()[before:]

    def answered_by(self, lines):
        """Returns the number of complete answers of each server."""
        upstreams = [line["upstream"].split(", ")[-1] for line in lines if line["status"] == 200 and line["complete"] == "OK"]
        return [upstreams.count(f"127.0.0.1:{server.port}") for server in self.servers]

    def get(self, path):
        return self.answer_to(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def answer_to(self, request):
        """Returns the status, the headers and the body of the answer."""
        async def get():
            connection = await Connection(self.nginx.port).open()
            await connection.send(request)
            status, headers = await connection.head()
            body = b"".join([piece async for piece in connection.pieces(headers)])
            await connection.close()
            return status, headers, body
        return asyncio.run(get())

    def both_serve(self, name):
        outcomes, lines = self.load()
        assert all(outcome.status == 200 for outcome in outcomes), collections.Counter(outcome.status for outcome in outcomes)
        shares = self.answered_by(lines)
        assert min(shares) * 4 >= sum(shares), f"{name}: not balanced: {shares}"
        print(f"{name}: {len(outcomes)} answers, {shares[0]} of one server and {shares[1]} of the other")

    def streams_come_at_once(self):
        """Tests that the first event arrives long before the last, so that nothing buffers the stream."""
        async def times():
            body = json.dumps({"prompt": "Once", "max_tokens": 400, "temperature": 0, "stream": True, "ignore_eos": True}).encode()
            connection, begin, seen = await Connection(self.nginx.port).open(), time.monotonic(), []
            await connection.send(post("/v1/completions", body))
            _, headers = await connection.head()
            async for _ in connection.pieces(headers):
                seen.append(time.monotonic() - begin)
            await connection.close()
            return seen
        seen = asyncio.run(times())
        assert len(seen) > 50 and seen[0] < seen[-1] / 4, (len(seen), seen[0], seen[-1])
        print(f"a stream: {len(seen)} pieces, the first after {1e3 * seen[0]:.1f} ms, the last after {1e3 * seen[-1]:.1f} ms")

    def one_is_killed(self):
        """Tests that only streams that had begun at the killed server break off. The other server must
        answer everything else."""
        victim, killed = self.servers[0], []

        def kill():
            victim.process.kill()
            victim.process.wait()
            killed.append(time.monotonic())
        outcomes, lines = self.load(kill)
        counts = collections.Counter("whole" if outcome.status == 200 else "broken stream" if outcome.status == 0 else outcome.status
                                     for outcome in outcomes)
        retried = sum("," in line["upstream"] for line in lines)
        for outcome in outcomes:
            if outcome.status == 200:
                continue
            assert outcome.status == 0 and outcome.stream and outcome.began < killed[0] <= outcome.ended + 0.5, outcome
        assert counts["broken stream"] <= self.options.clients, counts
        assert counts["broken stream"] + retried > 0, "nothing was under way at the killed server"
        late = [outcome for outcome in outcomes if outcome.began > killed[0]]
        assert len(late) >= self.options.clients, "hardly anything was asked after the kill"
        print(f"one killed: {dict(counts)}, {retried} given to the other, {len(late)} begun after the kill and all whole")

    def one_comes_back(self):
        self.servers[0].__enter__()
        time.sleep(FAIL_TIMEOUT + 1)
        self.both_serve("started again")

    def one_drains(self):
        victim = self.servers[1]
        outcomes, _ = self.load(lambda: victim.process.send_signal(signal.SIGTERM))
        bad = [outcome for outcome in outcomes if outcome.status != 200]
        assert not bad, bad
        assert victim.process.wait(60) == 0, victim.process.returncode
        print(f"one drained: {len(outcomes)} answers, none failed")

    def refusals(self):
        assert self.get("/ready")[0] == 200
        assert self.get("/metrics")[0] == 403
        status, _, body = self.answer_to(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")
        assert status == 413 and json.loads(body)["error"]["code"] == "request_too_large", (status, body)

    def none_is_left(self):
        self.servers[0].process.kill()
        self.servers[0].process.wait()
        for _ in range(3):
            status, headers, body = self.get("/v1/models")
            assert status == 503 and headers["retry-after"] == "5", (status, headers)
            assert json.loads(body)["error"]["code"] == "no_machine", body
        print("none left: 503 with Retry-After")

    def run(self):
        with self.servers[0], self.servers[1], self.nginx:
            self.both_serve("both")
            self.streams_come_at_once()
            self.refusals()
            self.one_is_killed()
            self.one_comes_back()
            self.one_drains()
            self.none_is_left()


def make_prompts(seed):
    """Returns parts of stories with the texts that the model continues them with."""
    draw = random.Random(seed)
    words = (pathlib.Path(MODEL) / "evaluation.txt").read_text().split(" ")
    prompts = []
    for number in range(12):
        start, length = draw.randrange(len(words) - 200), draw.choice([3, 40, 110])
        text, max_tokens = " ".join(words[start:start + length]).strip(), TOKENS[number % len(TOKENS)]
        command = [PROGRAM, "generate", MODEL, "--prompt", text, "--greedy", "--threads", "1", "--max-new-tokens", str(max_tokens)]
        made = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        prompts.append(Prompt(text, max_tokens, made.rstrip("\n")))
    return prompts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "access.log").unlink(missing_ok=True)
    Trial(options).run()


if __name__ == "__main__":
    main()
