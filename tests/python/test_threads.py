"""Tests of calls from several threads, and of streams that run while other calls are made."""

import threading
import time
from itertools import zip_longest

from conftest import DEMO

from neuronmm import LLM, SamplingParams

PROMPTS = ["The river", "In the year 1900", "A city"]


def texts(llm: LLM, seed: int) -> list[str]:
    params = SamplingParams(temperature=1, seed=seed, max_tokens=25)
    return [request.outputs[0].text for request in llm.generate(PROMPTS, params)]


def test_models_in_parallel_threads(llm: LLM) -> None:
    models = [llm, LLM(DEMO, num_threads=1), llm]
    expected = [texts(llm, seed) for seed in range(3)]
    found: list[list[list[str]]] = [[], [], []]

    def work(i: int) -> None:
        for _ in range(4):
            found[i].append(texts(models[i], i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[expected[i]] * 4 for i in range(3)]


def test_long_calls_release_the_interpreter_lock(llm: LLM) -> None:
    longest, last, stop = 0.0, time.monotonic(), False

    def tick() -> None:
        nonlocal longest, last
        while not stop:
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.monotonic()
    llm.perplexity(file=DEMO / "evaluation.txt")
    taken = time.monotonic() - start
    stop = True
    ticker.join()
    assert longest < max(0.5 * taken, 0.1), (longest, taken)


def test_interleaved_streams(llm: LLM) -> None:
    params = SamplingParams(max_tokens=30)
    expected = [request.outputs[0].text for request in llm.generate(PROMPTS, params)]
    other = texts(llm, 1)
    streams = [llm.stream(prompt, params) for prompt in PROMPTS]
    found = ["", "", ""]
    for step, pieces in enumerate(zip_longest(*streams, fillvalue="")):
        found = [text + piece for text, piece in zip(found, pieces, strict=True)]
        if step < 2:
            assert texts(llm, 1) == other  # another call between two pieces of the streams
    assert found == expected


def test_deleted_stream_stops_generating(llm: LLM) -> None:
    start = time.monotonic()
    for _ in range(20):
        stream = llm.stream("The river", SamplingParams(ignore_eos=True, max_tokens=450))
        next(stream)
        del stream
    llm.forward([1])
    whole = time.monotonic()
    llm.generate("The river", SamplingParams(ignore_eos=True, max_tokens=450))
    assert whole - start < 10 * (time.monotonic() - whole)
