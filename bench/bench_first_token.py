#!/usr/bin/env python3
"""Measures the time to the first token of servers with OpenAI's API, for several lengths and numbers of clients.

    bench/bench_first_token.py http://127.0.0.1:8000
    bench/bench_first_token.py http://127.0.0.1:8000 http://127.0.0.1:8080 --prompts 512,4096 --clients 1,16

The caller starts the servers, which take turns. All clients of a run send their prompts at the same moment. Every prompt
has other random tokens, so that no server finds a part of one in its cache. The table has the median and the largest time
to the first token over all clients and runs. The last column divides the tokens of all prompts by the time until the last
client has its first token. With enough clients, this is the rate at which the server reads.

A server needs room for all clients at once: `neuronmm serve MODEL --kv-cache-memory 4G`, `llama-server -np 16 -c 73728`.
"""

import argparse
import http.client
import json
import random
import statistics
import sys
import threading
import time
import urllib.parse
import urllib.request

# Ids that are ordinary tokens in every vocabulary of 32,000 tokens or more.
FIRST_ID, LAST_ID = 1000, 30000
TIMEOUT_S = 600


def first_token(url, body, barrier, times, index):
    """Sets times[index] to the seconds between sending the request and the first event that has text."""
    address = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT_S)
    connection.connect()
    barrier.wait()
    start = time.perf_counter()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{url}: expected status 200, found {response.status}: {response.read(500)!r}")
    for line in response:
        if line.startswith(b"data:") and b"choices" in line:
            times[index] = time.perf_counter() - start
            break
    response.read()
    connection.close()


def run(url, model, prompt, clients, new_tokens, seed):
    """Returns the time to the first token of every client."""
    source = random.Random(seed)
    barrier = threading.Barrier(clients)
    times = [None] * clients
    threads = []
    for index in range(clients):
        ids = [source.randint(FIRST_ID, LAST_ID) for _ in range(prompt)]
        body = json.dumps({"model": model, "prompt": ids, "max_tokens": new_tokens, "stream": True,
                           "temperature": 0, "ignore_eos": True})
        threads.append(threading.Thread(target=first_token, args=(url, body, barrier, times, index)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in times:
        raise RuntimeError(f"{url}: a client got no token")
    return times


def numbers(text):
    return [int(part) for part in text.split(",")]


def name_of_model(url):
    with urllib.request.urlopen(url + "/v1/models", timeout=TIMEOUT_S) as answer:
        return json.load(answer)["data"][0]["id"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL", help="a server's address without /v1")
    parser.add_argument("--prompts", type=numbers, default=[512, 4096], metavar="N,...", help="tokens of a prompt")
    parser.add_argument("--clients", type=numbers, default=[1, 16], metavar="N,...", help="clients at once")
    parser.add_argument("--new-tokens", type=int, default=4, metavar="N", help="tokens of each answer (default 4)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each combination (default 3)")
    given = parser.parse_args()
    models = {}
    for url in given.urls:
        try:
            models[url] = name_of_model(url)
        except (OSError, ValueError, LookupError) as error:
            parser.error(f"{url}/v1/models: {error}; does the server run?")
    print("| server | prompt | clients | first token, s: median | largest | prompt tokens/s |")
    print("|---|---|---|---|---|---|")
    for prompt in given.prompts:
        for clients in given.clients:
            found = {url: [] for url in given.urls}
            for turn in range(-1 if prompt * clients < 60000 else 0, given.runs):  # the turn -1 warms up
                for url in given.urls:
                    seed = turn * 1000 + prompt + clients
                    times = run(url, models[url], prompt, clients, given.new_tokens, seed)
                    if turn >= 0:
                        found[url].append(times)
            for url, runs in found.items():
                flat = [seconds for times in runs for seconds in times]
                rate = statistics.median(prompt * clients / max(times) for times in runs)
                print(f"| {url} | {prompt:,} | {clients} | {statistics.median(flat):.2f} | {max(flat):.2f} "
                      f"| {rate:,.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
