#!/usr/bin/env python3
"""Opens folders that neuronmm writes of every family's tiny model with transformers.

usage: folders.py NEURONMM WORK_FOLDER [NAME...]

The models are those of recipes.py, with the vocabulary of the bundled demo. `compress` and `quantize`
write a folder of each, and transformers opens it by the code in it. Its logits are those of
`--device reference`, which computes with the numbers in the files. The dense model's own logits are
compared, too.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from make_families import load, make_config, saved_weights
from recipes import RECIPES

PROGRAM, WORK = sys.argv[1], Path(sys.argv[2])
DEMO = Path("models/demo")
BOUND = 1e-4  # of the largest logit
FORMS = {
    "low": ["compress", "--method", "svd", "--block", "8", "--ratio", "0.3"],
    "dense8": ["quantize"],
    "dense4": ["quantize", "--bits", "4"],
}


def neuronmm(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"neuronmm {arguments}: {done.stderr}"
    return done.stdout


def recorded(folder):
    """Returns the greedy continuations of the reference backend, as (ids, first position, logits)."""
    path = WORK / "recorded.safetensors"
    neuronmm("check", folder, "--reference", folder, "--save-reference", path, "--new-tokens", 12, "--device", "reference")
    tensors = load_file(path)
    found = []
    for i in range(len(tensors) // 2):
        ids, logits = tensors[f"sequences.{i}"], tensors[f"logits.{i}"]
        found.append((ids, len(ids) - len(logits), logits))
    assert found
    return found


@torch.no_grad()
def apart(model, records):
    largest = 0.0
    for ids, first, logits in records:
        own = model(ids[None].long(), use_cache=False).logits[0, first:].float()
        largest = max(largest, ((own - logits).abs().max() / logits.abs().max()).item())
    return largest


def make_dense(name):
    classes, fields, _ = RECIPES[name]
    mxfp4 = name.endswith("_mxfp4")
    folder = WORK / name
    gain = 0.0 if "emma" in classes else 1.0
    saved_weights(make_config(classes, fields | dict(vocab_size=2048)), classes, folder, gain, mxfp4)
    shutil.copy(DEMO / "tokenizer.json", folder)
    return folder, classes


def check(name):
    folder, classes = make_dense(name)
    changes = {"quantization_config": transformers.Mxfp4Config(dequantize=True)} if name.endswith("_mxfp4") else {}
    found = {"dense": apart(load(folder, classes, **changes), recorded(folder))}
    mixture = "num_experts_per_tok" in json.loads((folder / "config.json").read_text())
    for form, (command, *flags) in ({} if mixture else FORMS).items():  # transformers does not open mixtures of ours
        out = WORK / f"{name}_{form}"
        neuronmm(command, folder, "-o", out, "--force", *flags)
        config = json.loads((out / "config.json").read_text())
        model = AutoModelForCausalLM.from_pretrained(out, trust_remote_code=True, dtype=torch.float32,
                                                     attn_implementation="eager").eval()
        assert type(model).__name__ == config["architectures"][0], type(model)
        found[form] = apart(model, recorded(out))
        shutil.rmtree(out)
    shutil.rmtree(folder)
    print(f"  {name:18}", ", ".join(f"{form} {error:.1e}" for form, error in found.items()), flush=True)
    assert max(found.values()) <= BOUND, name


def main(names):
    transformers.logging.set_verbosity_error()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in names or RECIPES:
        check(name)
    print("every family's folders open as what they are")


main(sys.argv[3:])
