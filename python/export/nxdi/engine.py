"""Runs the exported model in NxD Inference. Never run on a Trainium."""

import hashlib
import importlib
import json
import pathlib
import time

from common import HERE, TOP

DISTRIBUTIONS = ("neuronx-distributed-inference", "neuronx-distributed", "neuronx-cc", "torch-neuronx", "torch", "transformers")
# The names that this export calls, with the parameters that it passes, as in NxDI 0.7 to 0.9.
APPLICATION = "neuronx_distributed_inference.models.application_base:NeuronApplicationBase"
USED = {
    f"{APPLICATION}.compile": ("compiled_model_path",),
    f"{APPLICATION}.load": ("compiled_model_path",),
    f"{APPLICATION}.to_cpu": (),
    "neuronx_distributed_inference.models.config:InferenceConfig": ("neuron_config", "load_config"),
    "neuronx_distributed_inference.models.model_base:NeuronBaseForCausalLM.forward": (
        "input_ids", "seq_ids", "attention_mask", "position_ids"),
    "neuronx_distributed_inference.models.model_base:NeuronBaseModel.init_model": ("config",),
    "neuronx_distributed_inference.models.llama.modeling_llama:NeuronLlamaMLP.forward": (
        "x", "rmsnorm", "residual", "adapter_ids"),
}  # fmt: skip
# The folder of NxDI's model and the beginning of its class names. For NxDI Mistral is a Llama,
# sliding windows included. A class for Mistral exists only from the second version of SDK 2.29 on.
FAMILIES = {"llama": ("llama", "Llama"), "mistral": ("llama", "Llama"), "qwen2": ("qwen2", "Qwen2"), "qwen3": ("qwen3", "Qwen3")}


def module_of(folder):
    return f"neuronx_distributed_inference.models.{folder}.modeling_{folder}"


USED_BY_MODEL = {
    f"neuronmm_{name}": {
        f"{module_of(folder)}:Neuron{stem}Model.init_model": ("config",),
        f"{module_of(folder)}:Neuron{stem}ForCausalLM.convert_hf_to_neuron_state_dict": ("state_dict", "config"),
        f"{module_of(folder)}:Neuron{stem}ForCausalLM.get_config_cls": (),
    }
    for name, (folder, stem) in FAMILIES.items()
}
USED_BY_KERNELS = {}  # no kernels are exported: trn1's SDK does not have their dialect


def environment(mode, device):
    """Returns the environment variables of a mode.

    NXD_CPU_MODE is set to 0, too, because the shell may have set it to 1. Without a device only
    NEURON_PLATFORM_TARGET_OVERRIDE names the device.
    """
    target_variables = {} if mode == "device" else {"NEURON_PLATFORM_TARGET_OVERRIDE": device}
    return target_variables | {"NXD_CPU_MODE": str(int(mode == "cpu"))}


def kernel_environment(on):
    return {}


def dense_class(model_type):
    """Returns NxDI's own class, for the model that was compressed."""
    folder, stem = FAMILIES[model_type]
    return getattr(importlib.import_module(module_of(folder)), f"Neuron{stem}ForCausalLM")


class Engine:
    """A model in NxD Inference.

    Mode "compile" ends after the compilation. The compiled model is kept in a folder next to
    run.py, whose name depends on the model's path. `logits` is needed by other engines only.
    """

    TIMES_FIRST_TOKEN_SEPARATELY = False

    def __init__(self, export, folder, mode, logits=False):
        import torch
        from nxdi_model import inference_config, model_class

        self.torch = torch
        model_type = json.loads((pathlib.Path(folder) / "config.json").read_text())["model_type"]
        model_type_class = model_class(model_type) if model_type.startswith("neuronmm_") else dense_class(model_type)
        length = export["sequence_length"]
        config = inference_config(folder, model_type_class, length, export["prompt_tokens"], on_cpu=mode == "cpu")
        self.model = model_type_class(str(folder), config)
        if mode == "cpu":
            self.model.to_cpu()
            return
        key = hashlib.sha256(f"{pathlib.Path(folder).resolve()} {length}".encode()).hexdigest()[:12]
        compiled = HERE / "compiled" / key
        if not (compiled / "model.pt").exists():
            self.model.compile(str(compiled))
        if mode == "device":
            self.model.load(str(compiled))

    def step(self, tokens, position):
        """Returns the logits of the last of `tokens`.

        The first of `tokens` is at `position`, and all tokens before it are in the cache. The mask
        of a prompt covers its own tokens. The mask of a decode step covers only the tokens in the
        cache, because NxDI adds the decoded token.
        """
        torch = self.torch
        count = len(tokens)
        outputs = self.model(
            input_ids=torch.tensor([tokens]),
            attention_mask=torch.ones(1, position or count, dtype=torch.long),
            position_ids=torch.arange(position, position + count)[None],
            seq_ids=torch.tensor([0]),
        )
        return outputs.logits[0, -1].float()

    def log_probabilities(self, tokens, first):
        """Yields {token id: log probability} per position. The prompt is one prefill, and each
        later token is a step of decoding.
        """
        self.model.reset()
        logits = self.step(tokens[: first + 1], 0)
        for position in range(first + 1, len(tokens) + 1):
            values, ids = logits.log_softmax(-1).topk(TOP)
            yield dict(zip(ids.tolist(), values.tolist()))
            if position < len(tokens):
                logits = self.step(tokens[position : position + 1], position)

    def generate(self, tokens, count):
        return self.generate_timed(tokens, count)[0]

    def generate_timed(self, tokens, count):
        """Returns (tokens, seconds until the first, seconds until the last)."""
        self.model.reset()
        start = time.perf_counter()
        generated = [int(self.step(tokens, 0).argmax())]
        first = time.perf_counter() - start
        while len(generated) < count:
            generated.append(int(self.step(generated[-1:], len(tokens) + len(generated) - 1).argmax()))
        return generated, first, time.perf_counter() - start

    def text(self, prompt, count):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(HERE / "model" / "tokenizer.json"))
        return tokenizer.decode(self.generate(tokenizer.encode(prompt).ids, count))

    def run_once(self, prompt_tokens, new_tokens):
        return self.generate_timed([1 + i % 100 for i in range(prompt_tokens)], new_tokens)[1:]
