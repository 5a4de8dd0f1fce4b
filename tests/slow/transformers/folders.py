"""Opens folders of neuronmm with transformers, and compares logits and greedy ids.

usage: folders.py NEURONMM WORK_FOLDER

The models are random ones of every architecture with its options, and the bundled demo. With
`--device reference` neuronmm computes in fp64 with the numbers in the files. transformers computes
in fp32 with the same numbers, so that the results differ by fp32 rounding only. Two other
computations are less exact and have larger bounds: neuronmm's fast path with int8 weights, and
transformers in bf16.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from partly_dense import make_up_dense  # noqa: E402

PROGRAM, WORK = sys.argv[1], pathlib.Path(sys.argv[2])
DEMO = pathlib.Path("models/demo")
NEW_TOKENS = 12

# Bounds of errors, as shares of the largest logit.
#
# - EXACT is the bound of the largest error. The measured one is 2.3e-6.
# - BF16_RMS is the bound of the root mean square where transformers computes in bf16. The measured
#   one is 0.6 %.
# - INT8_RMS is the bound of the root mean square where the fast path rounds activations for int8
#   weights. The measured one is 1.2 %, with a largest error of 6.5 %.
# - ROUTED_RMS is BF16_RMS for mixtures, where a router in bf16 chooses another expert for some
#   tokens. The measured one is 6 %.
EXACT, BF16_RMS, INT8_RMS, ROUTED_RMS = 1e-5, 0.02, 0.03, 0.1

SIZES = {
    "hidden_size": 144, "intermediate_size": 288, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 2048, "max_position_embeddings": 256, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "initializer_range": 0.1, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
MODELS = {
    "llama": ("Llama", "float32", {"tie_word_embeddings": True, "rope_scaling": LLAMA3}),
    "llama_bias": ("Llama", "bfloat16", {"tie_word_embeddings": False, "attention_bias": True}),
    "mistral": ("Mistral", "float16", {"tie_word_embeddings": False, "sliding_window": 8}),
    "qwen2": ("Qwen2", "bfloat16", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", "float32", {"tie_word_embeddings": False, "rope_scaling": YARN}),
}
MIXTURES = {
    "mixtral": ("Mixtral", "bfloat16", {"num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False}),
    "qwen3_moe": ("Qwen3Moe", "float32", {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 96,
                                          "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
                                          "tie_word_embeddings": False}),
    "granitemoe": ("GraniteMoe", "float32", {"num_local_experts": 8, "num_experts_per_tok": 3, "logits_scaling": 4.0,
                                             "residual_multiplier": 0.5, "initializer_range": 0.05,
                                             "tie_word_embeddings": True}),
    "gpt_oss": ("GptOss", "bfloat16", {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 8,
                                       "tie_word_embeddings": False}),
}  # fmt: skip
SVD = ["compress", "--method", "svd", "--block", "8"]
# Every other form needs a calibration text. Random models have the demo's vocabulary, so that they
# can read it.
TEXT = ["compress", "--method", "whitened", "--block", "8", "--ratio", "0.3", "--no-measure", "--calibration",
        DEMO / "calibration.txt", "--calibration-tokens", "1024", "--form"]  # fmt: skip
FORMS = {
    "low": [*SVD, "--ratio", "0.3"],
    "part": [*SVD, "--ratio", "0.2"],  # up is made dense again
    "low8": [*SVD, "--ratio", "0.3", "--bits", "8"],
    "mixed": [*TEXT, "mixed", "--allocate", "predicted"],
    "mixed8": [*TEXT, "mixed", "--allocate", "predicted", "--bits", "8"],
    "dense8": ["quantize"],
    "dense6": ["quantize", "--bits", "6"],
    "dense4": ["quantize", "--bits", "4"],
}
# Only one model is tested with these forms, because their code is the same in all architectures.
MORE_FORMS = {
    "pivoted": [*TEXT, "pivoted", "--allocate", "uniform"],
    "narrow": [*TEXT, "narrow", "--allocate", "uniform"],
    # The result is a plain dense model, or a plain mixture.
    "neurons": [*TEXT, "neurons", "--allocate", "uniform"],
    "dense432": ["quantize", "--bits", "4", "--group", "32", "--lm-head-bits", "4"],
    "fewer": [*TEXT, "neurons", "--allocate", "predicted"],
    "low4": [*SVD, "--ratio", "0.3", "--bits", "4"],
    "mixed4": [*TEXT, "mixed", "--allocate", "predicted", "--bits", "4"],
    # A mixture with fewer experts.
    "experts": [*TEXT, "experts"],
    # Every layer has a shape and a number of bits of its own.
    "fit4": ["fit", "--max-kl", "0.5", "--block", "8", "--calibration", DEMO / "calibration.txt",
            "--calibration-tokens", "1024"],
}


def neuronmm(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"neuronmm {arguments}: {done.stderr}"
    return done.stdout


def make(form, source):
    out = source.with_name(f"{source.name}_{form}")
    command, *flags = (FORMS | MORE_FORMS)[form]
    neuronmm(command, source, "-o", out, "--force", *flags)
    if form == "part":
        make_up_dense(out, source)
    return out


def synthesize(name):
    architecture, dtype, fields = (MODELS | MIXTURES)[name]
    model_type = name if name in MIXTURES else architecture.lower()
    config = {"architectures": [architecture + "ForCausalLM"], "model_type": model_type, "torch_dtype": dtype}
    path = WORK / f"{name}.json"
    path.write_text(json.dumps(config | SIZES | fields))
    neuronmm("synthesize", "--config", path, "-o", WORK / name, "--force")
    shutil.copy(DEMO / "tokenizer.json", WORK / name)
    (WORK / name / "generation_config.json").write_text('{"eos_token_id": [2, 3], "temperature": 0.5, "do_sample": true}')
    return WORK / name


def recorded(folder, device):
    """Returns neuronmm's greedy continuations.

    The result is a list of (prompt, continuation, logits [tokens, vocabulary]). Activations are fp32, because
    CPUs with AMX round them to bf16 by default, and logits are then 1.5e-2 apart.
    """
    path = WORK / "recorded.safetensors"
    exact = ["--activations", "fp32"] if device == "cpu" else []
    neuronmm("check", folder, "--reference", folder, "--save-reference", path, "--new-tokens", NEW_TOKENS,
             "--device", device, *exact)  # fmt: skip
    tensors = load_file(path)
    found = []
    for i in range(len(tensors) // 2):
        ids, logits = tensors[f"sequences.{i}"], tensors[f"logits.{i}"]
        prompt = ids[: len(ids) - len(logits) + 1]
        found.append((prompt, torch.cat([ids[len(prompt) :], logits[-1:].argmax(-1)]), logits))
    assert found
    return found


def load(folder, dtype=torch.float32, auto=AutoModelForCausalLM, **kwargs):
    return auto.from_pretrained(folder, trust_remote_code=True, torch_dtype=dtype, **kwargs).eval()


@torch.no_grad()
def logits_of(model, prompt, continuation):
    ids = torch.cat([prompt, continuation])[None, :-1]
    return model(ids).logits[0, len(prompt) - 1 :].float()


def apart(model, records):
    """Returns the largest and the root-mean-square error, as shares of the largest logit."""
    largest = rms = 0.0
    for prompt, continuation, logits in records:
        difference = logits_of(model, prompt, continuation) - logits
        largest = max(largest, (difference.abs().max() / logits.abs().max()).item())
        rms = max(rms, (difference.pow(2).mean().sqrt() / logits.abs().max()).item())
    return largest, rms


def check_greedy(model, records):
    for prompt, continuation, _ in records:
        ids = model.generate(prompt[None], attention_mask=torch.ones_like(prompt[None]), max_new_tokens=NEW_TOKENS,
                             do_sample=False, eos_token_id=[], pad_token_id=0)  # fmt: skip
        assert torch.equal(ids[0, len(prompt) :], continuation), (ids, continuation)


def check_folder(folder, rounded, bf16_bound=BF16_RMS):
    config = json.loads((folder / "config.json").read_text())
    records = recorded(folder, "reference")
    model = load(folder)
    assert type(model).__name__ == config["architectures"][0], type(model)
    assert model.dtype == torch.float32
    assert model.num_parameters() > 0 and all(not p.is_meta for p in model.parameters())
    assert any(p.dtype in (torch.int8, torch.uint8) for p in model.parameters()) == rounded
    exact, _ = apart(model, records)
    assert exact <= EXACT, f"{folder}: {exact}"
    check_greedy(model, records)
    largest, rms = apart(model, recorded(folder, "cpu"))
    if rounded:
        assert rms <= INT8_RMS, f"{folder}: {rms} on the fast path"
    else:
        assert largest <= EXACT, f"{folder}: {largest} on the fast path"
    _, bf16 = apart(load(folder, torch.bfloat16), records)
    assert bf16 <= bf16_bound, f"{folder}: {bf16} in bf16"
    assert load(folder, torch.bfloat16).dtype == torch.bfloat16
    assert type(load(folder, auto=AutoModel)).__name__ == config["architectures"][0].replace("ForCausalLM", "Model")
    print(f"  {folder.name:18} exact {exact:.1e}, fast path {largest:.1e} (rms {rms:.1e}), bf16 rms {bf16:.1e}")
    return model


def check_plain(folder, model_type):
    assert json.loads((folder / "config.json").read_text())["model_type"] == model_type
    check_folder(folder, False, bf16_bound=ROUTED_RMS)


def check_saved(model, folder):
    """Checks that transformers saves a folder, in shards, that is the same model to both sides."""
    saved = WORK / "saved"
    shutil.rmtree(saved, ignore_errors=True)
    model.save_pretrained(saved, max_shard_size="400KB")
    # The prompts that neuronmm records depend on the tokenizer.
    shutil.copy(folder / "tokenizer.json", saved)
    assert len(list(saved.glob("*.safetensors"))) > 1
    records = recorded(folder, "reference")
    for (_, a, x), (_, b, y) in zip(records, recorded(saved, "reference")):
        assert torch.equal(a, b) and torch.equal(x, y)
    assert apart(load(saved), records)[0] <= EXACT


def without(folder, name):
    """Returns a copy of a folder that lacks one tensor."""
    copy = WORK / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    tensors = load_file(copy / "model.safetensors")
    del tensors[name]
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    return copy


def check_missing(folder):
    """Checks that a missing tensor is an error that names the tensor."""
    tensors = load_file(folder / "model.safetensors")
    endings = {name.split(".", 3)[-1] if ".layers." in name else name for name in tensors}
    for ending in endings:
        name = next(name for name in tensors if name.endswith(ending))
        for auto in (AutoModelForCausalLM, AutoModel):
            if name.startswith("lm_head.") and auto is AutoModel:
                continue  # AutoModel has no head
            try:
                load(without(folder, name), auto=auto)
            except ValueError as error:
                assert name.removeprefix("model.") in str(error), f"{name}: {error}"
            else:
                raise AssertionError(f"{folder} opens without {name}")


def check_trust(folder):
    """Checks that a folder without its code fails to open, instead of giving random weights."""
    try:
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    except ValueError as error:
        assert "trust_remote_code" in str(error), error
    else:
        raise AssertionError(f"{folder} opens without its code")


def check_demo():
    """Checks the bundled demo from text to text.

    The text, the tokenizer and the generation settings must agree. A short training is included.
    """
    low = WORK / "demo_low"
    neuronmm("compress", DEMO, "-o", low, "--force", "--ratio", "0.2", "--block", "32", "--calibration",
             DEMO / "calibration.txt", "--calibration-tokens", 4096, "--no-measure")  # fmt: skip
    folders = [low, make("dense8", low)]
    tuned = WORK / "demo_tuned"
    neuronmm("finetune", low, "-o", tuned, "--force", "--data", DEMO / "calibration.txt", "--tokens", 2048, "--teacher", DEMO)
    folders.append(tuned)
    prompt = "The little girl"
    for folder in folders:
        model = check_folder(folder, folder.name[-1].isdigit())
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        inputs = tokenizer(prompt, return_tensors="pt")
        ids = model.generate(**inputs, max_new_tokens=24, do_sample=False)[0, inputs.input_ids.shape[1] :]
        text = neuronmm("generate", folder, prompt, "--greedy", "--max-new-tokens", 24, "--device", "reference")
        assert tokenizer.decode(ids, skip_special_tokens=True).strip() == text.strip(), (tokenizer.decode(ids), text)
        assert model.generation_config.to_diff_dict().items() >= {
            key: value
            for key, value in json.loads((DEMO / "generation_config.json").read_text()).items()
            if key in ("bos_token_id", "eos_token_id")
        }.items()


def check_older(folder, config):
    """Checks that a folder in the format of versions until 0.2 is the same model."""
    records = recorded(folder, "reference")
    now = json.loads((folder / "config.json").read_text())
    del now["auto_map"]
    now |= {key: config[key] for key in ("architectures", "model_type")}
    if now.pop("neuronmm_quantization", None):
        now["quantization_config"] = {"quant_method": "neuronmm", "bits": 8, "group_size": 128}
    (folder / "config.json").write_text(json.dumps(now))
    for (_, a, x), (_, b, y) in zip(records, recorded(folder, "reference")):
        assert torch.equal(a, b) and torch.equal(x, y)


def make_all(name, source):
    forms = {form: make(form, source) for form in FORMS}
    forms["both"] = make("dense8", forms["low"])
    if name == "llama":
        for form in MORE_FORMS.keys() - {"experts"}:
            forms[form] = make(form, source)
            if not form[-1].isdigit():
                forms[form + "8"] = make("dense8", forms[form])
    return forms


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    torch.manual_seed(0)
    for name in MODELS:
        source = synthesize(name)
        forms = make_all(name, source)
        for form, folder in forms.items():
            model = check_folder(folder, form == "both" or form[-1].isdigit())
            assert model.generation_config.eos_token_id == [2, 3] and model.generation_config.temperature == 0.5
            if form in ("low", "both", "mixed", "mixed8", "dense4"):
                check_saved(model, folder)
            if form in ("both", "dense4") or (name, form) in (("llama", "part"), ("llama", "mixed"), ("llama", "pivoted8")):
                check_missing(folder)
        if name == "llama":
            assert json.loads((forms["neurons"] / "config.json").read_text())["model_type"] == "llama"
        check_trust(forms["low"])
        for form in ("low", "both"):
            check_older(forms[form], json.loads((source / "config.json").read_text()))
    for name in MIXTURES:
        source = synthesize(name)
        # Experts of several sizes become equal again, and rounded ones floats.
        padded = [make(form, source) for form in ("fewer", "dense8")]
        check_plain(make("neurons", source), name)
        check_plain(make("experts", source), name)
        for folder in padded:
            out = folder.with_name(folder.name + "_padded")
            neuronmm("export", folder, "--target", "padded", "-o", out, "--force")
            check_plain(out, name)
    check_demo()
    print("every folder opens as what it is")


main()
