"""Compares the prompts of /infill and `suffix` with a rendering by the tokenizers library."""

import random

import httpx
import pytest
from conftest import INFILL_TOKENS
from tokenizers import Tokenizer

WORDS = ["Once", " upon", " a", " time", "\n", "  the cat", ". ", "é", " \t", "{}", "日本"]


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def rendered(tokenizer, prefix, suffix, prompt):
    """The context of the demo model has no room for other files beside the window of 2,048 tokens."""
    begin, *marks = (tokenizer.token_to_id(token) for token in ["<|begin_of_text|>", *INFILL_TOKENS[:3]])
    before = [marks[0], *ids(tokenizer, prefix), *ids(tokenizer, prompt)]
    return [begin, *before, marks[1], *ids(tokenizer, suffix), marks[2]]


def test_prompts_equal_an_independent_rendering(served, tokenizer):
    seed = random.randrange(10**6)
    print("seed", seed)
    source = random.Random(seed)

    def text(most):
        return "".join(source.choice(WORDS) for _ in range(source.randrange(most)))

    for _ in range(40):
        prefix, suffix, prompt = text(12), text(12), text(4)
        body = {
            "input_prefix": prefix,
            "input_suffix": suffix,
            "prompt": prompt,
            "n_predict": 8,
            "temperature": 0,
            "return_tokens": True,
        }
        infilled = httpx.post(served.url + "/infill", json=body).raise_for_status().json()
        expected = rendered(tokenizer, prefix, suffix, prompt)
        assert infilled["tokens_evaluated"] == len(expected)
        assert infilled["prompt"] == tokenizer.decode(expected, skip_special_tokens=False)
        stops = [tokenizer.token_to_id(token) for token in INFILL_TOKENS]
        body = {"prompt": expected, "n_predict": 8, "temperature": 0, "return_tokens": True}
        completed = httpx.post(served.url + "/completion", json=body).raise_for_status().json()
        cut = next((i for i, token in enumerate(completed["tokens"]) if token in stops), None)
        assert infilled["tokens"] == completed["tokens"][:cut]


def test_suffix_of_completions(served, tokenizer):
    body = {"prompt": "Once upon", "suffix": " the end.", "max_tokens": 6, "temperature": 0, "return_token_ids": True}
    choice = httpx.post(served.url + "/v1/completions", json=body).raise_for_status().json()["choices"][0]
    begin, prefix, suffix, middle = (tokenizer.token_to_id(t) for t in ["<|begin_of_text|>", *INFILL_TOKENS[:3]])
    expected = [begin, prefix, *ids(tokenizer, "Once upon"), suffix, *ids(tokenizer, " the end."), middle]
    assert choice["prompt_token_ids"] == expected
