import json

import pytest
from served_demo import TEMPLATE, Served, demo_with

INFILL_TOKENS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]


def with_infill_tokens(folder):
    """Gives the demo model tokens for infill, in the place of its last five merges."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    by_id = {number: text for text, number in vocabulary.items()}
    first = max(vocabulary.values()) + 1 - len(INFILL_TOKENS)
    for number, text in enumerate(INFILL_TOKENS, first):
        del vocabulary[by_id[number]]
        flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
        tokenizer["added_tokens"].insert(0, {"id": number, "content": text, "special": True, **flags})
    del tokenizer["model"]["merges"][-len(INFILL_TOKENS) :]
    tokenizer["added_tokens"].sort(key=lambda token: token["id"])
    path.write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return with_infill_tokens(demo_with(TEMPLATE, tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="session")
def served(folder):
    served = Served(folder, "--served-model-name", "llama-server")
    yield served
    assert served.stop() == 0
