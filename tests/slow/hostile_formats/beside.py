"""Measures harmless requests alone, and then while four clients send hostile output formats.

Arguments: URL FILE, where each line of the file is {"is_pattern": ..., "text": ...}. The exit code is 1 if a
hostile request gets another status than 200 or 400, or if harmless requests take more than 1.2 times as long.
"""

import collections
import http.client
import json
import multiprocessing
import statistics
import sys
import time
import urllib.parse

HOSTILE_CLIENTS, ALONE_S, LIMIT = 4, 20, 1.2
SCHEMA = {
    "type": "object",
    "required": ["name", "age"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "maxLength": 8, "pattern": "^[A-Z][a-z]+$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
}
address = urllib.parse.urlparse(sys.argv[1]).netloc


def ask(connection, fields):
    body = {"prompt": "Once upon a time", "temperature": 0, **fields}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


def harmless_times(goes_on):
    """Times of a plain completion and of a schema that the server has not seen, by kind, in ms."""
    times, number = collections.defaultdict(list), 0
    connection = http.client.HTTPConnection(address, timeout=600)
    while goes_on():
        number += 1
        schema = {**SCHEMA, "title": f"{time.time()}"}
        for kind, fields in (
            ("plain", {"max_tokens": 48, "ignore_eos": True}),
            ("schema", {"max_tokens": 48, "structured_outputs": {"json": schema}, "seed": number}),
        ):
            begin = time.perf_counter()
            status, text = ask(connection, fields)
            assert status == 200, text
            times[kind].append((time.perf_counter() - begin) * 1000)
    return times


def send_hostile(formats, results):
    """Sends formats in a process of its own, so that the harmless client does not wait for its interpreter."""
    connection = http.client.HTTPConnection(address, timeout=600)
    for one in formats:
        field = {"regex": one["text"]} if one["is_pattern"] else {"json": one["text"]}
        begin = time.perf_counter()
        status, text = ask(connection, {"max_tokens": 16, "structured_outputs": field})
        results.put((status, time.perf_counter() - begin))
        if status not in (200, 400):
            print(status, text[:300], one["text"][:300])


def main():
    formats = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
    end = time.time() + ALONE_S
    alone = harmless_times(lambda: time.time() < end)
    results = multiprocessing.SimpleQueue()
    clients = [
        multiprocessing.Process(target=send_hostile, args=(formats[first::HOSTILE_CLIENTS], results))
        for first in range(HOSTILE_CLIENTS)
    ]
    seconds, statuses = [], collections.Counter()

    def goes_on():
        while not results.empty():
            status, time_taken = results.get()
            statuses[status] += 1
            seconds.append(time_taken)
        return any(client.is_alive() for client in clients)

    for client in clients:
        client.start()
    beside = harmless_times(goes_on)
    goes_on()
    print(f"hostile: {dict(statuses)}, longest {max(seconds):.1f} s, median {statistics.median(seconds):.3f} s")
    ok = set(statuses) <= {200, 400}
    for kind in alone:
        before, after = (statistics.quantiles(times[kind], n=100) for times in (alone, beside))
        print(
            f"{kind}: median {before[49]:.1f} -> {after[49]:.1f} ms ({after[49] / before[49]:.2f}), "
            f"90 % {before[89]:.1f} -> {after[89]:.1f} ms, 99 % {before[98]:.1f} -> {after[98]:.1f} ms "
            f"({len(alone[kind])}, {len(beside[kind])} requests)"
        )
        ok = ok and after[49] <= LIMIT * before[49]
    return 0 if ok else 1


sys.exit(main())
