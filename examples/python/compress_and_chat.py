"""Compresses a model folder, prints what that costs, and lets both models write.

    python examples/python/compress_and_chat.py models/demo /tmp/small models/demo/calibration.txt \
        models/demo/evaluation.txt
"""

import sys

try:
    import neuronmm
except ImportError:
    sys.exit("expected the package neuronmm, found none; docs/guide/python.md says how to install it")

if len(sys.argv) != 5:
    sys.exit("usage: compress_and_chat.py MODEL OUT CALIBRATION_TEXT TEST_TEXT")
model, small, calibration, text = sys.argv[1:]

report = neuronmm.compress(model, small, ratio=0.2, calibration=calibration, force=True)
print(f"{report.bytes_before / 1e6:.1f} MB -> {report.bytes_after / 1e6:.1f} MB")

params = neuronmm.SamplingParams(temperature=0.8, top_p=0.95, seed=1, max_tokens=40)
for path in (model, small):
    llm = neuronmm.LLM(path)
    print(f"\n{path}: perplexity {llm.perplexity(file=text).perplexity:.2f}")
    for piece in llm.stream("Once upon a time", params):
        print(piece, end="", flush=True)
    print()
