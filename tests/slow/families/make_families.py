#!/usr/bin/env python3
"""Makes tiny random models with transformers and records their logits.

Usage: make_families.py FOLDER [NAME...]

For every recipe FOLDER/NAME.json gets the config.json, the names and shapes of the tensors as
transformers saves them, the tokens, and the logits in fp32. No weights are stored: a formula of the
tensor's name gives them (see `values`), and tests/model/families_test.cc has the same formula. So
the golden files in tests/model/families are small. Each family's GGUF file is described, too: its
keys, and what llama.cpp's converter makes of each tensor (see gguf_of_families.py).
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

from gguf_of_families import gguf_description
from recipes import RECIPES, WITHOUT_GGUF

TOKENS = 24
PREFIX = 12
VISION = {
    "Qwen2_5_VL": dict(depth=1, hidden_size=32, intermediate_size=16, num_heads=2, out_hidden_size=64, patch_size=2,
                       fullatt_block_indexes=[0], window_size=8),
    "Qwen3VL": dict(depth=1, hidden_size=32, intermediate_size=16, num_heads=2, out_hidden_size=64, patch_size=2,
                    num_position_embeddings=16, deepstack_visual_indexes=[0]),
    "Mistral3": dict(model_type="pixtral", num_hidden_layers=1, hidden_size=32, intermediate_size=16,
                     num_attention_heads=2, head_dim=16, patch_size=2, image_size=8),
    "Gemma3": dict(model_type="siglip_vision_model", num_hidden_layers=1, hidden_size=32, intermediate_size=16,
                   num_attention_heads=2, patch_size=2, image_size=8),
}


def hashes(name, shape):
    """Returns 64 bits for each element of the tensor `name`."""
    hashed = np.uint64(14695981039346656037)  # FNV-1a
    with np.errstate(over="ignore"):
        for byte in name.encode():
            hashed = (hashed ^ np.uint64(byte)) * np.uint64(1099511628211)
        z = hashed + (np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # splitmix64
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(name, shape, gain):
    """Returns the tensor `name`: uniform noise, plus `gain` for the gains of norms."""
    z = hashes(name, shape)
    unit = (z >> np.uint64(40)).astype(np.float64) / 2.0**24
    noise = (2.0 * unit - 1.0) * 0.35
    is_gain = "norm" in name and len(shape) == 1 and name.endswith(".weight")
    return (noise + (gain if is_gain else 0.0)).astype(np.float32).reshape(shape)


def is_packed(name):
    return name.endswith(("_blocks", "_scales"))


def packed_values(name, shape):
    """Returns a tensor of MXFP4: any codes, and scales that make numbers of the size of the others."""
    z = hashes(name, shape)
    if name.endswith("_scales"):
        return (np.uint64(122) + (z >> np.uint64(40)) % np.uint64(4)).astype(np.uint8).reshape(shape)
    return ((z >> np.uint64(40)) & np.uint64(255)).astype(np.uint8).reshape(shape)


def make_config(classes, fields):
    outer, _, inner = classes.partition(":")
    if outer not in VISION:
        return getattr(transformers, outer + "Config")(**fields)
    text = {"Qwen2_5_VL": "qwen2_5_vl_text", "Qwen3VL": "qwen3_vl_text", "Gemma3": "gemma3_text"}.get(outer) or inner.lower()
    fields = dict(fields, model_type=text)
    return getattr(transformers, outer + "Config")(
        text_config=fields, vision_config=VISION[outer], tie_word_embeddings=False,
        **({"image_token_index": 3} if outer in ("Mistral3", "Gemma3") else {"image_token_id": 3}))


def auto_class(classes):
    return AutoModelForImageTextToText if classes.partition(":")[0] in VISION else AutoModelForCausalLM


def in_mxfp4(shapes):
    """Returns the shapes with those of the experts of gpt-oss as they are stored in MXFP4."""
    packed = {}
    for name, shape in shapes.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, inputs, outputs = shape
            packed[name + "_blocks"] = (experts, outputs, inputs // 32, 16)
            packed[name + "_scales"] = (experts, outputs, inputs // 32)
        else:
            packed[name] = shape
    return packed


def saved_weights(config, classes, folder, gain, mxfp4=False):
    """Saves a model of the config whose weights follow the formula, and returns the tensors."""
    model = auto_class(classes).from_config(config, attn_implementation="eager", dtype=torch.float32)
    model.save_pretrained(folder)
    shapes = {name: tensor.shape for name, tensor in load_file(folder / "model.safetensors").items()}
    if mxfp4:
        shapes = in_mxfp4(shapes)
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": {"quant_method": "mxfp4"}}))
    tensors = {name: packed_values(name, shape) if is_packed(name) else values(name, shape, gain)
               for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return tensors


def load(folder, classes, **changes):
    model, info = auto_class(classes).from_pretrained(folder, attn_implementation="eager", dtype=torch.float32,
                                                      output_loading_info=True, **changes)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def check_experts(model, tokens):
    """Every expert of every layer is used by the text."""
    used = {}
    for name, module in model.named_modules():
        if type(module).__name__.endswith("TopKRouter"):
            def hook(_, __, output, name=name):
                used[name] = (set(output[2].flatten().tolist()), output[0].shape[-1])
            module.register_forward_hook(hook)
    logits_of(model, tokens)
    for name, (experts, count) in used.items():
        assert len(experts) == count, f"{name}: of {count} experts only {experts} are used"


def logits_of(model, tokens):
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


def check_steps(model, tokens, logits):
    """One token after the other gives the logits of the whole text."""
    cache, rows = None, []
    with torch.no_grad():
        for token in tokens:
            out = model(input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            rows.append(out.logits[0, -1].numpy())
    return np.abs(np.stack(rows) - logits).max() <= 1e-4 * np.abs(logits).max()


def encoded(array):
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def golden(name):
    classes, fields, toggles = RECIPES[name]
    gain = 0.0 if "emma" in classes else 1.0
    tokens = [int(t) for t in np.random.RandomState(7).randint(4, fields["vocab_size"], TOKENS)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        mxfp4 = name.endswith("_mxfp4")
        tensors = saved_weights(make_config(classes, fields), classes, folder, gain, mxfp4)
        config = json.loads((folder / "config.json").read_text())
        dequantized = {"quantization_config": transformers.Mxfp4Config(dequantize=True)} if mxfp4 else {}
        model = load(folder, classes, **dequantized)
        check_experts(load(folder, classes, **dequantized), tokens)
        logits, prefix = logits_of(model, tokens), logits_of(model, tokens[:PREFIX])
        assert np.isfinite(logits).all() and np.abs(logits).max() > 0.1, name
        for key, value in toggles.items():
            changed = dict(config) | {key: value}
            (folder / "config.json").write_text(json.dumps(changed))
            other = logits_of(load(folder, classes, **dequantized), tokens)
            assert np.abs(other - logits).max() > 1e-3 * np.abs(logits).max(), f"{name}: {key} changes nothing"
        one_by_one = check_steps(model, tokens, logits)
    same_prefix = np.abs(prefix - logits[:PREFIX]).max() <= 1e-4 * np.abs(logits).max()
    result = {
        "made_by": f"tests/slow/families/make_families.py with transformers {transformers.__version__}",
        "config": config, "gain": gain,
        "tensors": {key: list(tensor.shape) for key, tensor in sorted(tensors.items())},
        "tokens": tokens, "steps_agree": bool(one_by_one), "logits": encoded(logits)}
    if not same_prefix:
        result["prefix_logits"] = encoded(prefix)
    if name not in WITHOUT_GGUF:
        result["gguf"] = gguf_description(config, tensors)
    return result


def main(folder, names):
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or RECIPES:
        result = golden(name)
        text = json.dumps(result, separators=(",", ":")).replace(',"', ',\n"') + "\n"
        (Path(folder) / f"{name}.json").write_text(text)
        notes = ("" if result["steps_agree"] else ", steps differ") + (", prefix differs" if "prefix_logits" in result else "")
        print(f"{name}: {len(text)} bytes{notes}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
