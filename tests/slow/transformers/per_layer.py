"""Checks that transformers' own classes still cannot build layers of different sizes.

Usage: per_layer.py

Folders with a number of neurons for each layer have code of their own for this reason
(docs/reference/loaders.md). When this script fails, a newer version needs none.
"""

import sys

import transformers

SIZES = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, vocab_size=16
)


def neurons(stem):
    """Returns the neurons of each layer, or the name of the error."""
    config = getattr(transformers, f"{stem}Config")(**SIZES, per_layer_config={"1": {"intermediate_size": 48}})
    try:
        model = getattr(transformers, f"{stem}ForCausalLM")(config)
    except Exception as error:  # the class of the error is private and has moved before
        return type(error).__name__
    return [layer.mlp.gate_proj.out_features for layer in model.model.layers]


found = {stem: neurons(stem) for stem in ("Llama", "Mistral", "Qwen2", "Qwen3")}
print("transformers", transformers.__version__, "with per_layer_config:", found)
if any(sizes == [64, 48] for sizes in found.values()):
    sys.exit("per_layer_config works: write it into folders of --form neurons, and update docs/reference/loaders.md")
