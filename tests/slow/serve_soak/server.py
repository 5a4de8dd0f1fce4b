"""Runs `neuronmm serve` for tests and reads its metrics and its use of system resources."""

import asyncio
import json
import multiprocessing
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
from load_completions import events  # noqa: E402

PROGRAM = os.environ.get("NEURONMM", str(ROOT / "build/release/neuronmm"))
MODEL = str(ROOT / "models/demo")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server that runs until the end of a `with`. Its output goes to the file `log`. Its limits are
    the defaults unless `flags` change them."""

    def __init__(self, log, *flags):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [PROGRAM, "serve", MODEL, "--port", str(self.port), *flags]
        self.log = log

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                sys.exit(f"{' '.join(self.command)} does not serve: see {self.log}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.exit_code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.exit_code = "none: it was killed a minute after SIGTERM"

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def ready(self):
        try:
            return bool(json.loads(self.get("/v1/models"))["data"])
        except (urllib.error.URLError, OSError, ValueError, KeyError):
            return False

    def metrics(self):
        """Returns the value of each metric, summed over all labels. The names lack vLLM's prefix."""
        values = {}
        for line in self.get("/metrics").splitlines():
            if line.startswith("#") or not line.strip():
                continue
            name, value = line.rsplit(" ", 1)
            name = name.split("{")[0].removeprefix("vllm:")
            values[name] = values.get(name, 0.0) + float(value)
        return values

    def status(self, name):
        """Returns a number from /proc/PID/status: VmRSS (in KiB) or Threads."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise KeyError(name)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def rest(self, seconds=30):
        """Returns the metrics as soon as no request runs or waits and no block is in use, at the latest
        after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.metrics()
            busy = now["num_requests_running"] + now["num_requests_waiting"] + now["kv_cache_usage_perc"]
            if busy == 0 or time.monotonic() > deadline:
                return now
            time.sleep(0.1)


def poll_health(port, stop, times):
    """Asks for /health over new connections until `stop`, and puts the milliseconds of each request
    into `times`. Runs in a process of its own, so that no other work delays it."""
    while not stop.is_set():
        begin = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answer = connection.recv(65536)
            good = answer.startswith(b"HTTP/1.1 200")
        except OSError:
            good = False
        times.put((time.monotonic() - begin) * 1e3 if good else float("inf"))
        time.sleep(0.05)


class Health:
    """Measures /health during a `with`. `times` then has the milliseconds in ascending order."""

    def __init__(self, server):
        self.stop, self.queue = multiprocessing.Event(), multiprocessing.SimpleQueue()
        self.process = multiprocessing.Process(target=poll_health, args=(server.port, self.stop, self.queue), daemon=True)
        self.times = []

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        while self.process.is_alive() or not self.queue.empty():
            while not self.queue.empty():
                self.times.append(self.queue.get())
            self.process.join(0.05)
        self.times.sort()

    def at(self, percent):
        return self.times[min(len(self.times) - 1, len(self.times) * percent // 100)]

    def __str__(self):
        return (f"/health {len(self.times)} times: median {self.at(50):.1f} ms, p90 {self.at(90):.1f},"
                f" p99 {self.at(99):.1f}, most {self.times[-1]:.1f}")


class Connection:
    """An HTTP/1.1 connection without a client library, so that requests can be wrong."""

    def __init__(self, port, receive_buffer=None):
        self.port, self.receive_buffer = port, receive_buffer

    async def open(self):
        plain = socket.socket()
        plain.setblocking(False)
        if self.receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self.port))
        limit = self.receive_buffer or 1 << 20
        self.reader, self.writer = await asyncio.open_connection(sock=plain, limit=limit)
        return self

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    def abort(self):
        self.writer.transport.abort()

    async def close(self):
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass

    async def head(self):
        """Returns the status and the headers. Raises EOFError if there is no response."""
        line = await self.reader.readline()
        if not line:
            raise EOFError("the server closed")
        status, headers = int(line.split()[1]), {}
        while (line := (await self.reader.readline()).strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
        return status, headers

    async def line(self):
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the server closed in the middle of a body")
        return line.strip()

    async def pieces(self, headers):
        """Yields the body as it comes. Raises EOFError (asyncio.IncompleteReadError is one) if the body is
        incomplete."""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await self.line(), 16):
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.line()
        else:
            yield await self.reader.readexactly(int(headers.get("content-length", 0)))


def post(path, body, extra=""):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
            .encode() + body)


def events_of(body):
    """Returns the data of each event of a stream. Raises ValueError if the stream is incomplete."""
    return list(events(body.splitlines(keepends=True)))
