"""Compares the logits of models that neuronmm merges with those of PEFT.

Usage: adapters.py NEURONMM FOLDER

For each family, a tiny random model gets an adapter that PEFT saves. `import --adapter` writes the
merged model, and `export --target padded` a copy of it. transformers opens both, and their logits are
those of the base model with the adapter in PEFT. So are those of an adapter that `finetune --lora` trains.
"""

import pathlib
import shutil
import subprocess
import sys

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FUSED = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
CASES = {
    "Llama": dict(target_modules=LINEAR, use_rslora=True),
    "Qwen2": dict(target_modules=LINEAR, use_dora=True),
    "Qwen3": dict(target_modules=["q_proj", "embed_tokens", "lm_head"]),
    "Phi3": dict(target_modules=FUSED),
    "Gemma2": dict(target_modules=LINEAR, rank_pattern={"o_proj": 3}, alpha_pattern={"o_proj": 7}),
    "Ernie4_5": dict(target_modules=["q_proj", "k_proj"]),
}
SIZES = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    vocab_size=128, max_position_embeddings=64, tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
IDS = torch.tensor([[1, 5, 9, 20, 33, 77, 120, 64]])
BOUND = 1e-5  # of the largest logit, in fp32


def run(*command):
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {finished.stderr}")
    return finished.stdout


def logits(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(IDS).logits[0]


def compare(name, found, expected):
    distance = ((found - expected).abs().max() / expected.abs().max()).item()
    print(f"  {name:24} {distance:.1e}")
    if not distance < BOUND:
        sys.exit(f"{name}: logits differ by {distance:.1e} of the largest one, expected less than {BOUND}")


def make(folder, stem, settings):
    torch.manual_seed(len(stem))
    config = getattr(transformers, f"{stem}Config")(**SIZES)
    model = getattr(transformers, f"{stem}ForCausalLM")(config).float()
    model.save_pretrained(folder / "base")
    peft = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, **settings))
    for parameter in peft.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.1)
    peft.save_pretrained(folder / "adapter")
    base = getattr(transformers, f"{stem}ForCausalLM").from_pretrained(folder / "base", dtype=torch.float32)
    with torch.no_grad():
        unmerged = PeftModel.from_pretrained(base, folder / "adapter").eval()(IDS).logits[0]
        before = getattr(transformers, f"{stem}ForCausalLM").from_pretrained(folder / "base")(IDS).logits[0]
    if (unmerged - before).abs().max() < 1e-2 * before.abs().max():
        sys.exit(f"{stem}: the adapter changes too little to test")
    return unmerged


def check_trained(neuronmm, folder):
    """Compares an adapter that `finetune --lora` has trained for the bundled model."""
    demo = folder / "base"  # in fp32, because a merged weight is rounded to the dtype of the model
    AutoModelForCausalLM.from_pretrained("models/demo", dtype=torch.float32).save_pretrained(demo)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"models/demo/{name}", demo)
    run(neuronmm, "finetune", demo, "--data", "models/demo/stories.txt", "--lora", 4, "--tokens", 8192, "--cutoff", 64,
        "--learning-rate", 3e-3, "-o", folder / "adapter")  # fmt: skip
    run(neuronmm, "import", demo, "--adapter", folder / "adapter", "-o", folder / "merged")
    base = AutoModelForCausalLM.from_pretrained(demo, dtype=torch.float32)
    with torch.no_grad():
        before = base(IDS).logits[0]
        unmerged = PeftModel.from_pretrained(base, folder / "adapter").eval()(IDS).logits[0]
    if (unmerged - before).abs().max() < 1e-2 * before.abs().max():
        sys.exit(f"{folder}: training changed too little to test")
    compare("trained by finetune", logits(folder / "merged"), unmerged)


def main():
    neuronmm, root = sys.argv[1], pathlib.Path(sys.argv[2])
    for stem, settings in CASES.items():
        folder = root / stem
        expected = make(folder, stem, settings)
        run(neuronmm, "import", folder / "base", "--adapter", folder / "adapter", "-o", folder / "merged")
        compare(f"{stem} merged", logits(folder / "merged"), expected)
        run(neuronmm, "export", folder / "merged", "--target", "padded", "-o", folder / "padded")
        compare(f"{stem} padded", logits(folder / "padded"), expected)
        # Merging twice gives the same bytes.
        run(neuronmm, "import", folder / "base", "--adapter", folder / "adapter", "-o", folder / "again")
        if (folder / "again/model.safetensors").read_bytes() != (folder / "merged/model.safetensors").read_bytes():
            sys.exit(f"{stem}: two merges differ")
    check_trained(neuronmm, root / "trained")
    print("every merged model computes what PEFT does")


main()
