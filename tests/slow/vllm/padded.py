"""Loads dense and padded folders in vLLM.

Usage: padded.py NEURONMM FOLDER

vLLM runs models/demo in fp32 on the CPU, and so it does after each form was compressed and padded. Its
greedy tokens and their log-probabilities must be those of transformers on the same folder.
"""

import pathlib
import subprocess
import sys

import torch

FORMS = {
    "neurons": ["--form", "neurons", "--ratio", "0.3"],
    "uv": ["--form", "uv", "--ratio", "0.2"],
    "mixed": ["--form", "mixed", "--ratio", "0.2"],
}
IDS = [1, 5, 9, 20, 33]
TOKENS = 8
BOUND = 1e-3  # of a log-probability, in fp32


def run(*command):
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {finished.stderr}")


def by_transformers(folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids, logprobs = list(IDS), []
    for _ in range(TOKENS):
        with torch.no_grad():
            row = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        ids.append(int(row.argmax()))
        logprobs.append(float(row.max()))
    return ids[len(IDS) :], logprobs


def by_vllm(folder):
    from vllm import LLM, SamplingParams

    llm = LLM(model=str(folder), dtype="float32", enforce_eager=True, max_model_len=64, max_num_seqs=2)
    settings = SamplingParams(temperature=0, max_tokens=TOKENS, logprobs=1, ignore_eos=True)
    output = llm.generate([{"prompt_token_ids": IDS}], settings)[0].outputs[0]
    logprobs = [entry[token].logprob for token, entry in zip(output.token_ids, output.logprobs)]
    return list(output.token_ids), logprobs


def main():
    neuronmm, root = sys.argv[1], pathlib.Path(sys.argv[2])
    folders = {"dense": "models/demo"}
    for form, options in FORMS.items():
        small, folders[form] = root / form, root / f"{form}_padded"
        run(neuronmm, "compress", "models/demo", "-o", small, "--calibration", "models/demo/calibration.txt", *options)
        run(neuronmm, "export", small, "--target", "padded", "-o", folders[form])
    for form, folder in folders.items():
        (ids, expected), (found_ids, found) = by_transformers(folder), by_vllm(folder)
        distance = max(abs(a - b) for a, b in zip(found, expected))
        print(f"  {form:10} {distance:.1e}")
        if found_ids != ids or distance > BOUND:
            sys.exit(f"{form}: vLLM gave {found_ids} {found}, transformers {ids} {expected}")
    print("vLLM loads every folder")


if __name__ == "__main__":
    main()
