"""The users of Locust for `neuronmm serve`. They request streamed chats, whose events are read one by
one and checked, and completions without a stream."""

import json
import random

from locust import HttpUser, between, task

WORDS = "Once upon a time there was a little dog who liked to play with his red ball in the park".split()


def words(least, most):
    return " ".join(random.choices(WORDS, k=random.randint(least, most)))


class Client(HttpUser):
    wait_time = between(0, 0.05)

    @task(4)
    def chat(self):
        limit = random.randint(4, 48)
        body = {
            "messages": [{"role": "user", "content": words(3, 120)}],
            "max_tokens": limit,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        with self.client.post("/v1/chat/completions", json=body, stream=True, catch_response=True) as response:
            if response.status_code != 200:
                return response.failure(f"{response.status_code} {response.text}")
            lines = [line.decode() for line in response.iter_lines() if line]
            events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
            chunks = [json.loads(event) for event in events if event != "[DONE]"]
            text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
            if not events or events[-1] != "[DONE]" or not text:
                response.failure(f"a stream that ends with {lines[-1:]}")
            elif chunks[-1]["usage"]["completion_tokens"] != limit:
                response.failure(f"expected {limit} tokens, found {chunks[-1]['usage']}")

    @task(1)
    def completion(self):
        body = {"prompt": words(3, 40), "max_tokens": 8, "ignore_eos": True}
        with self.client.post("/v1/completions", json=body, catch_response=True) as response:
            if response.status_code != 200 or response.json()["usage"]["completion_tokens"] != 8:
                response.failure(f"{response.status_code} {response.text}")
