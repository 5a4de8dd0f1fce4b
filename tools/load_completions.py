#!/usr/bin/env python3
"""Streams many completions from a server at once and prints how long they took. Needs only Python's standard library.

    tools/load_completions.py http://127.0.0.1:8000 --concurrency 16 --requests 64 --json report.json

Prompts are lists of random token ids, so the client needs no tokenizer. `bench/bench_parallel.py --serve` and the slow tests of
serving use this file. Its reader of event streams shares no code with the server, so the two cannot have the same fault. To
compare figures with another program's, use bench/bench_serve.py. The exit code is 1 if any answer is not whole.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import os
import random
import ssl
import sys
import time
import urllib.parse

# An answer: its text, its usage as the server tells it, and the seconds from the request to its first text and to its end.
Completion = collections.namedtuple("Completion", "text finish_reason usage first_seconds seconds")


def events(lines):
    """Yields the data of each event of a stream, which is given as lines of bytes that end with a line feed.

    Raises ValueError for a line that is no field and no comment, and for a stream that ends within an event.
    """
    data = None
    for line in lines:
        if not line.endswith(b"\n"):
            raise ValueError(f"the stream ends within the line {line!r}")
        line = line.rstrip(b"\r\n").decode()
        if not line:
            if data is not None:
                yield data
            data = None
            continue
        field, colon, value = line.partition(":")
        if not colon or field not in ("", "data", "event"):
            raise ValueError(f"expected data:, event: or a comment, found {line!r}")
        if field == "data":
            value = value.removeprefix(" ")
            data = value if data is None else data + "\n" + value
    if data is not None:
        raise ValueError(f"the stream ends within the event {data!r}")


def connect(url, timeout):
    """Opens a connection to the server of `url`; of https, SSL_CERT_FILE may name the certificate to trust."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(parts.netloc, timeout=timeout)


def stream_completion(url, fields, timeout=120.0):
    """Asks /v1/completions for one stream and returns its Completion.

    The key is OPENAI_API_KEY of the environment. Raises OSError, http.client.HTTPException or ValueError if the answer is
    refused or not whole.
    """
    body = fields | {"stream": True, "stream_options": {"include_usage": True}}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    connection = connect(url, timeout)
    try:
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"status {response.status}: {response.read(2000).decode(errors='replace')}")
        return read_completion(response, begin)
    finally:
        connection.close()


def read_completion(response, begin):
    texts, reason, usage, first, last = [], None, None, None, None
    for data in events(response):
        if last == "[DONE]":
            raise ValueError(f"expected nothing after [DONE], found {data!r}")
        last = data
        if data == "[DONE]":
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            raise ValueError(f"the stream ends with the error {chunk['error']}")
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            if choice["text"] and first is None:
                first = time.monotonic() - begin
            texts.append(choice["text"])
            reason = choice["finish_reason"] or reason
    if last != "[DONE]" or not reason or not usage:
        raise ValueError(f"expected finish_reason, usage and [DONE], found {reason}, {usage} and {last!r}")
    seconds = time.monotonic() - begin
    return Completion("".join(texts), reason, usage, seconds if first is None else first, seconds)


def load(url, bodies, concurrency, timeout=120.0):
    """Sends these requests, at most `concurrency` at once, and returns a report with vLLM's names for the figures."""
    def ask(body):
        try:
            return stream_completion(url, body, timeout)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return f"{type(error).__name__}: {error}"

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
        answers = list(pool.map(ask, bodies))
    seconds = time.monotonic() - begin
    whole = [answer for answer in answers if isinstance(answer, Completion)]
    tokens = sum(answer.usage["completion_tokens"] for answer in whole)
    return {"completed": len(whole), "errors": [answer for answer in answers if isinstance(answer, str)],
            "total_input_tokens": sum(answer.usage["prompt_tokens"] for answer in whole), "total_output_tokens": tokens,
            "duration": seconds, "output_throughput": tokens / seconds,
            "mean_ttft_ms": 1e3 * sum(answer.first_seconds for answer in whole) / max(len(whole), 1)}


def random_ids(count, draw=random):
    """Returns ids of ordinary tokens: every vocabulary has these, and special tokens lie elsewhere."""
    return draw.choices(range(300, 2000), k=count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL", help="the server's address without /v1")
    parser.add_argument("--concurrency", type=int, default=16, help="requests at once (default %(default)s)")
    parser.add_argument("--requests", type=int, default=64, help="requests in all (default %(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=128, help="tokens of each prompt (default %(default)s)")
    parser.add_argument("--new-tokens", type=int, default=64, help="tokens of each answer (default %(default)s)")
    parser.add_argument("--stop-at-eos", action="store_true", help="let answers end at the model's end-of-text token")
    parser.add_argument("--seed", type=int, default=0, help="of the prompts (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write the report to this file")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    bodies = [{"prompt": random_ids(options.prompt_tokens, draw), "max_tokens": options.new_tokens, "temperature": 0,
               "ignore_eos": not options.stop_at_eos} for _ in range(options.requests)]
    report = load(options.url, bodies, options.concurrency)
    print(f"{report['completed']} answers, {report['total_output_tokens']} tokens in {report['duration']:.2f} s:"
          f" {report['output_throughput']:.1f} tokens/s, mean time to first token {report['mean_ttft_ms']:.1f} ms")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=2)
    if report["errors"]:
        sys.exit(f"{len(report['errors'])} answers are not whole, the first: {report['errors'][0]}")


if __name__ == "__main__":
    main()
