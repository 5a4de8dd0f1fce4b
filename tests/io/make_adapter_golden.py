#!/usr/bin/env python3
"""Makes tests/io/adapter_golden: tiny models with adapters that PEFT has saved, and the weights that
PEFT merges.

Usage: make_adapter_golden.py FOLDER

Needs PyPI's torch, transformers and peft (made with 2.8.0, 5.24.0 and 0.21.2). Each case has a base
model in fp32, an adapter and merged.safetensors. An adapter whose merged tensors PEFT would share
with the base, because the model ties them, is no case here.
"""

import json
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM

SIZES = dict(
    hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=12,
    max_position_embeddings=32, tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LLAMA = (LlamaConfig, LlamaForCausalLM, dict(attention_bias=True))
PHI3 = (Phi3Config, Phi3ForCausalLM, {})
CASES = {
    "patterns": (LLAMA, dict(
        target_modules=LINEAR, rank_pattern={"down_proj": 3}, alpha_pattern={"layers.0.mlp.up_proj": 5, "q_proj": 1})),
    "dora": (LLAMA, dict(target_modules=["q_proj", "down_proj"], use_dora=True, use_rslora=True)),
    "tables": (LLAMA, dict(target_modules=["embed_tokens", "lm_head", "v_proj"], bias="lora_only")),
    "saved": (LLAMA, dict(target_modules=["o_proj"], modules_to_save=["lm_head"], lora_bias=True)),
    "phi3": (PHI3, dict(target_modules=["qkv_proj", "gate_up_proj"], use_dora=True)),
}


def make(folder, family, settings, seed):
    config_class, model_class, extra = family
    torch.manual_seed(seed)
    model = model_class(config_class(**SIZES, **extra)).float()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder / "base")
    peft = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=3, **settings))
    # A fresh adapter changes nothing.
    for name, parameter in peft.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.5)
    peft.save_pretrained(folder / "adapter")
    merged = {name: tensor.clone().contiguous() for name, tensor in peft.merge_and_unload().state_dict().items()}
    save_file(merged, folder / "merged.safetensors")
    for name in ("generation_config.json", "adapter/README.md", "base/generation_config.json"):
        (folder / name).unlink(missing_ok=True)
    config = folder / "adapter" / "adapter_config.json"
    text = json.loads(config.read_text())
    config.write_text(json.dumps(text, indent=2) + "\n")


def main():
    root = pathlib.Path(sys.argv[1])
    for seed, (name, (family, settings)) in enumerate(CASES.items()):
        make(root / name, family, settings, seed)
        print(name)


main()
