"""Compares embeddings of `neuronmm serve` with hidden states that transformers computes in fp32."""

import json
import subprocess

import httpx
import pytest
from served_demo import ROOT, Served

PYTHON = ROOT / "build/transformers/venv/bin/python"
TEXTS = ["The dog", "Once upon a time there was a little girl who lived in a big house.", "so " * 200]
REFERENCE = """
import json, sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModel.from_pretrained(sys.argv[1], dtype=torch.float32)
for text in json.load(sys.stdin):
    with torch.no_grad():
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    print(json.dumps({"last": states[-1].tolist(), "mean": states.mean(0).tolist()}))
"""


@pytest.mark.skipif(not PYTHON.exists(), reason="tests/slow/transformers.sh makes the environment")
@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_embeddings_are_hidden_states_of_transformers(folder, pooling):
    output = subprocess.check_output([PYTHON, "-c", REFERENCE, folder], input=json.dumps(TEXTS), text=True)
    expected = [json.loads(line)[pooling] for line in output.splitlines()]
    served = Served(folder, "--pooling", pooling)
    body = {"content": TEXTS, "embd_normalize": -1}
    found = [entry["embedding"][0] for entry in httpx.post(served.url + "/embedding", json=body).json()]
    assert served.stop() == 0
    for have, want in zip(found, expected, strict=True):
        dot = sum(a * b for a, b in zip(have, want))
        lengths = [sum(a * a for a in vector) ** 0.5 for vector in (have, want)]
        # The server keeps keys and values in bf16, as the model was trained.
        assert dot / (lengths[0] * lengths[1]) > 0.9999
        assert lengths[0] == pytest.approx(lengths[1], rel=0.01)
