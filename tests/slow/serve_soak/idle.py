#!/usr/bin/env python3
"""Opens 2,000 idle connections and 200 streams that are read slowly, with all limits at their defaults.
The server must answer /health in less than 10 ms and must not start a thread for each connection. See ../serve_soak.sh.

    idle.py [--idle 2000] [--streams 200] [--seconds 20]
"""

import argparse
import asyncio
import json
import pathlib
import resource
import sys

from server import ROOT, Connection, Health, Server, events_of, post

MOST_HEALTH_MS = 10.0  # for nine of ten requests; the others may wait for a core that the model uses
# With log probabilities an answer does not fit in the buffers of the sockets, so the server has to
# wait for the client.
ASKED = {"prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "ignore_eos": True, "logprobs": 20, "stream": True}


async def slow_stream(server, seconds):
    """Reads a little of a stream ten times a second, and the rest after `seconds`. Returns the number
    of tokens of the answer."""
    connection = await Connection(server.port, receive_buffer=4096).open()
    while True:
        await connection.send(post("/v1/completions", json.dumps(ASKED).encode()))
        status, headers = await connection.head()
        if status != 429:
            break
        async for _ in connection.pieces(headers):
            await asyncio.sleep(0.5)
    body, end = b"", asyncio.get_running_loop().time() + seconds
    async for piece in connection.pieces(headers):
        body += piece
        if asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.1)
    await connection.close()
    events = events_of(body)
    if status != 200 or not events or events[-1] != "[DONE]":
        return 0
    return sum(len(choice["logprobs"]["tokens"]) for event in events[:-1] for choice in json.loads(event)["choices"]
               if choice.get("logprobs"))


async def run(options, server, failures):
    idle = [await Connection(server.port).open() for _ in range(options.idle)]
    streams = [asyncio.create_task(slow_stream(server, options.seconds + 2)) for _ in range(options.streams)]
    await asyncio.sleep(1)
    threads = []
    with Health(server) as health:
        for _ in range(int(options.seconds * 2)):
            await asyncio.sleep(0.5)
            threads.append(server.status("Threads"))
    open_files = server.descriptors()
    tokens = await asyncio.gather(*streams)
    for connection in idle:
        await connection.close()
    print(f"{open_files} open files, {max(threads)} threads at most, {server.status('VmRSS') / 1024:.0f} MiB; {health}")
    if open_files < options.idle:
        failures.append(f"only {open_files} files are open: connections were closed")
    if health.at(90) >= MOST_HEALTH_MS:
        failures.append(f"{health}: expected less than {MOST_HEALTH_MS} ms")
    if wrong := [count for count in tokens if count != ASKED["max_tokens"]]:
        failures.append(f"{len(wrong)} of {len(tokens)} slow streams are not whole: {sorted(set(wrong))[:5]} tokens")
    return max(threads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/serve_soak")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is an open file on either side
    failures = []
    with Server(options.work / "idle.log") as server:
        before = server.status("Threads")
        threads = asyncio.run(run(options, server, failures))
        if threads > before:
            failures.append(f"{threads} threads, {before} without connections")
    sys.exit("\n".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
