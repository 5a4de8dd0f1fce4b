"""Tests `neuronmm export --target gguf` with llama.cpp and with PyPI's gguf.

usage: gguf_out.py NEURONMM LLAMA_BIN WORK_FOLDER MODEL...

The tiny models of tests/model/families are exported as fp32, and llama-cpp-python's logits are compared
with those of transformers. So are models with MLPs of unequal sizes. Every MODEL is exported in all types.
gguf reads the files, and llama.cpp checks every block and continues a text. Its tokens, the prompt that
llama-cpp-python makes of a conversation and the loss of a text in fp32 and BF16 are compared with ours.
"""

import base64
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[3]
NEURONMM, LLAMA, WORK = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
MODELS = [pathlib.Path(path) for path in sys.argv[4:]]
TYPES = ["Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "F16"]
# llama.cpp computes fp32 in another order than transformers, and GELU by a table of F16 (Gemma).
TOLERANCE = 1e-3
# llama.cpp multiplies BF16 weights by activations in BF16, as it does in files of its own converter.
LOSS_BOUNDS = {"F32": 1e-4, "BF16": 1e-2}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which colour has the sky?"}]
TEXTS = [
    "Once upon a time, there was a cat.",
    " two  spaces   and\n\nlines\t\ttabs ",
    "12345 67 8 it's they'll DON'T can't",
    "naïve café — 漢字 かな 한글 🙂🙃",
    "def f(x):\n    return x ** 2  # square\n",
    "<|im_start|>user\nHi<|im_end|>\n<start_of_turn>x",
]
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message)


def run(*command, ok=True):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                            stdin=subprocess.DEVNULL)
    if ok and result.returncode != 0:
        check(False, f"{' '.join(map(str, command))}: exit code {result.returncode}: {result.stderr[-1500:]}")
    return result


def export(model, out, *options, ok=True):
    return run(NEURONMM, "export", model, "--target", "gguf", "-o", out, "--force", *options, ok=ok)


def weights(name, shape, gain):
    """Returns the tensor by the formula of tests/slow/families/make_families.py."""
    hashed = np.uint64(14695981039346656037)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            hashed = (hashed ^ np.uint64(byte)) * np.uint64(1099511628211)
        z = hashed + (np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    unit = (z >> np.uint64(40)).astype(np.float64) / 16777216.0
    mean = gain if len(shape) == 1 and "norm" in name and name.endswith(".weight") else 0.0
    return ((2 * unit - 1) * 0.35 + mean).astype(np.float32).reshape(shape)


def by_llama_cpp(*arguments):
    result = subprocess.run([sys.executable, HERE.parent / "by_llama_cpp.py", *map(str, arguments)],
                            capture_output=True)
    if result.returncode != 0:
        check(False, f"{arguments[1]}: llama-cpp-python: {result.stderr.decode(errors='replace')[-800:]}")
        return None
    return result.stdout


def llama_logits(file, tokens):
    result = by_llama_cpp("logits", file, *tokens)
    return np.frombuffer(result, dtype=np.float32) if result is not None else None


def compare(name, found, wanted):
    if found is None:
        return
    check(found.size == wanted.size, f"{name}: {found.size} logits instead of {wanted.size}")
    if found.size == wanted.size:
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        print(f"{name}: error {error:.1e}")
        check(error <= TOLERANCE, f"{name}: logits differ by {error:.1e} of the largest")


def test_families():
    """Exports the golden models. A refusal must say why."""
    compared = 0
    for path in sorted((ROOT / "tests/model/families").glob("*.json")):
        golden = json.loads(path.read_text())
        if "quantization_config" in golden["config"]:
            continue  # its tensors are codes, and the same family is here with floats
        folder = WORK / "family"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(golden["config"]))
        save_file({name: weights(name, shape, golden["gain"]) for name, shape in golden["tensors"].items()},
                  folder / "model.safetensors")
        result = export(folder, WORK / "family.gguf", "--type", "F32", ok=False)
        if result.returncode != 0:
            print(f"{path.stem}: refused: {result.stderr.strip().splitlines()[-1]}")
            check("llama.cpp" in result.stderr, f"{path.stem}: {result.stderr}")
            continue
        if "rounds the limits of yarn" in result.stdout:
            continue
        # llama.cpp ignores the windows of some architectures: the command says up to where both agree.
        window = re.search(r"ignores the window of (\d+) tokens", result.stdout)
        count = min(len(golden["tokens"]), int(window[1]) if window else 10**9)
        logits = np.frombuffer(base64.b64decode(golden["logits"]), dtype=np.float32).reshape(len(golden["tokens"]), -1)
        compare(path.stem, llama_logits(WORK / "family.gguf", golden["tokens"][:count]), logits[:count].ravel())
        compared += 1
    check(compared >= 20, f"only {compared} families were compared")


def token_ids_here(model, text):
    result = run(NEURONMM, "tokenize", model, text, "--json", "-")
    return json.loads(result.stdout)["ids"] if result.returncode == 0 else None


def token_ids_there(file, text):
    (WORK / "text.txt").write_text(text)
    result = run(LLAMA / "llama-tokenize", "-m", file, "-f", WORK / "text.txt", "--ids", "--no-escape",
                 "--log-disable")
    return json.loads(result.stdout.strip().splitlines()[-1]) if result.returncode == 0 else None


def loss_of(logits, ids):
    """Returns the mean loss of the ids behind the first one, in nats."""
    rows = logits.reshape(len(ids), -1)[:-1].astype(np.float64)
    top = rows.max(axis=1)
    return float((top + np.log(np.exp(rows - top[:, None]).sum(axis=1)) - rows[np.arange(len(rows)), ids[1:]]).mean())


def test_loss(model, file, kind):
    """Compares the loss of a text in the file there with the loss of the model here."""
    text = WORK / "text.txt"
    text.write_text((ROOT / "models/demo/evaluation.txt").read_text()[:900])
    ids = token_ids_here(model, text.read_text())[:192]
    run(NEURONMM, "perplexity", model, text, "--context", len(ids), "--limit", "1", "--activations", "fp32",
        "--json", WORK / "loss.json")
    here = math.log(json.loads((WORK / "loss.json").read_text())["perplexity"])
    logits = llama_logits(file, ids)
    if logits is None:
        return
    there = loss_of(logits, ids)
    print(f"{model.name} {kind}: loss {here:.5f} here, {there:.5f} in llama-cpp-python")
    check(abs(there - here) <= LOSS_BOUNDS[kind], f"{model.name} {kind}: loss {here} here, {there} there")


def test_prompt(model, file):
    files = [model / "tokenizer_config.json", model / "chat_template.jinja"]
    if not any(path.exists() and "chat_template" in path.read_text() + path.name for path in files):
        return
    messages = WORK / "messages.json"
    messages.write_text(json.dumps(MESSAGES))
    ours = run(NEURONMM, "tokenize", model, "--messages", messages, "--json", "-").stdout
    theirs, answer = by_llama_cpp("prompt", file, messages), by_llama_cpp("answer", file, messages)
    if theirs is None or answer is None:
        return
    check(json.loads(ours)["text"] == json.loads(theirs), f"{model.name}: prompt {ours} here, {theirs} there")
    print(f"{model.name}: llama-cpp-python answers {answer.decode().strip()}")
    check(json.loads(answer).strip(), f"{model.name}: an empty answer")


def test_model(model):
    name = model.name
    for kind in ["F32", "BF16", *TYPES]:
        file = WORK / "model.gguf"
        result = export(model, file, "--type", kind)
        if result.returncode != 0:
            continue
        reader = gguf.GGUFReader(file)
        for tensor in reader.tensors:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            check(np.isfinite(values).all(), f"{name} {kind} {tensor.name}: not finite")
        continued = run(LLAMA / "llama-completion", "-m", file, "--check-tensors", "-no-cnv", "-n", "8", "--temp", "0",
                        "-t", "2", "-p", "The capital of France is")
        print(f"{name} {kind}: {file.stat().st_size / 1e6:.1f} MB: {continued.stdout.strip()!r}")
        if kind in LOSS_BOUNDS:
            test_loss(model, file, kind)
        if kind != "BF16":
            continue
        test_prompt(model, file)
        for text in TEXTS:
            ours, theirs = token_ids_here(model, text), token_ids_there(file, text)
            check(ours == theirs, f"{name}: ids of {text!r}: {ours} here, {theirs} there")


def test_sizes_per_layer():
    """Layers of unequal sizes: llama.cpp reads the architectures that have them as it reads equal ones."""
    demo, qwen3 = ROOT / "models/demo", WORK / "qwen3"
    config = json.loads((demo / "config.json").read_text())
    config |= {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    (WORK / "qwen3.json").write_text(json.dumps(config))
    run(NEURONMM, "synthesize", "--config", WORK / "qwen3.json", "-o", qwen3, "--force")
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(demo / name, qwen3 / name)
    for model, architecture in [(demo, "deci"), (qwen3, "openelm")]:
        small, file = WORK / f"small_{architecture}", WORK / "model.gguf"
        run(NEURONMM, "compress", model, "-o", small, "--force", "--form", "neurons", "--ratio", "0.2",
            "--calibration", demo / "calibration.txt", "--calibration-tokens", "8192")
        if export(small, file, "--type", "F32").returncode != 0:
            continue
        found = gguf.GGUFReader(file).get_field("general.architecture").contents()
        check(found == architecture, f"{file}: the architecture is {found} instead of {architecture}")
        test_loss(small, file, "F32")


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    test_families()
    test_sizes_per_layer()
    for model in MODELS:
        test_model(model)
    if failures:
        sys.exit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
