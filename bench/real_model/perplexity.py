"""Computes the perplexity of a text by transformers in fp32: of all tokens, and as llama-perplexity
counts them.

    perplexity.py MODEL_DIR TEXT [WINDOW]

The text is encoded once and cut into windows that do not overlap. The tail is dropped.
llama-perplexity runs the same windows but scores only the second half of each. These tokens have
half a window before them and are easier.
"""

import math
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    folder, path = sys.argv[1:3]
    window = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with open(path, encoding="utf-8", newline="") as file:
        ids = AutoTokenizer.from_pretrained(folder)(file.read(), return_tensors="pt").input_ids[0]
    every, behind_middle = [], []
    for begin in range(0, len(ids) - window + 1, window):
        chunk = ids[begin : begin + window]
        logits = model(chunk[None]).logits[0, :-1].double()
        losses = torch.nn.functional.cross_entropy(logits, chunk[1:], reduction="none")
        every.append(losses)
        behind_middle.append(losses[window // 2 :])
    for name, losses in ("all tokens", every), ("behind the middle", behind_middle):
        losses = torch.cat(losses)
        print(f"transformers, {name}: {math.exp(losses.mean()):.7f} ({len(losses)} tokens)")


main()
