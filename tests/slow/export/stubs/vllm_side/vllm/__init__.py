"""A stub of vLLM and of the runner of its Neuron plugin.

Names, parameters and the order of calls are those of the public documentation (vLLM 0.29, Neuron
SDK 2.33). The code was written for these tests. It runs one request at a time, greedily and without
a KV cache.
"""

import dataclasses
import importlib.metadata
import inspect
import os
import pathlib

import torch
from transformers import AutoConfig, AutoTokenizer


class ModelRegistry:
    models = {}

    @staticmethod
    def register_model(model_arch, model_cls):
        ModelRegistry.models[model_arch] = model_cls


def accepts(function, name):
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def check_interface(model):
    """Checks what vLLM requires of a class that generates text.

    The requirements are those of vllm/model_executor/models/interfaces_base.py.
    """
    assert isinstance(model, type) and issubclass(model, torch.nn.Module)
    assert accepts(model.__init__, "vllm_config"), "the class is no vLLM model: __init__ takes no vllm_config"
    assert accepts(model.forward, "input_ids") and accepts(model.forward, "positions")
    assert all(callable(getattr(model, name, None)) for name in ("compute_logits", "embed_input_ids"))


@dataclasses.dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 16
    min_tokens: int = 0
    ignore_eos: bool = False
    logprobs: int | None = None


@dataclasses.dataclass
class Logprob:
    logprob: float


@dataclasses.dataclass
class CompletionOutput:
    token_ids: list
    logprobs: list | None


@dataclasses.dataclass
class RequestOutput:
    outputs: list


@dataclasses.dataclass
class NeuronConfig:
    num_batched_tokens_buckets: list | None = None
    num_seqs_buckets: list | None = None
    # None means sampling on the host.
    on_device_sampling_config: dict | None = dataclasses.field(default_factory=dict)


def check_modes():
    assert os.environ.get("VLLM_NEURON_BACKEND", "neuron") in ("neuron", "neuron_native"), "the XLA route is deprecated"
    on = [name for name in ("VLLM_NEURON_CPU_MODE", "VLLM_NEURON_CPU_COMPILE") if os.environ.get(name) == "1"]
    if len(on) == 2:
        raise RuntimeError(f"{' and '.join(on)} are not compatible with each other")
    assert not on or os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE") in ("trn2", "trn3"), "no device and no name of one"


def check_lengths(limit, neuron, hf_config):
    """Raises an error for lengths that the plugin or vLLM would refuse.

    The rules are those of the plugin's decode mask (attention_decode_mask.py), its scheduler and
    vLLM's ModelConfig.
    """
    if limit % 128 != 0:
        raise ValueError(f"s_prior ({limit}) must be divisible by 128")
    if limit > hf_config.max_position_embeddings:
        raise ValueError(f"max_model_len ({limit}) is greater than the derived {hf_config.max_position_embeddings}")
    assert neuron.num_seqs_buckets == [1]


class LLM:
    def __init__(self, model, *, runner="auto", tokenizer=None, trust_remote_code=False, tensor_parallel_size=1, dtype="auto",
                 seed=0, additional_config=None, async_scheduling=True, **kwargs):  # fmt: skip
        check_modes()
        for entry in importlib.metadata.entry_points(group="vllm.general_plugins"):
            entry.load()()
        known = {"max_num_seqs", "max_model_len", "max_num_batched_tokens", "enable_prefix_caching", "enforce_eager"}
        assert set(kwargs) <= known, kwargs
        self.folder, self.limit = pathlib.Path(model), kwargs["max_model_len"]
        self.config = AutoConfig.from_pretrained(model, trust_remote_code=trust_remote_code)
        self.neuron_config = NeuronConfig(**additional_config["neuron_config"])
        check_lengths(self.limit, self.neuron_config, self.config)
        assert self.neuron_config.num_batched_tokens_buckets[-1] == kwargs["max_num_batched_tokens"]
        on_device = self.neuron_config.on_device_sampling_config is not None
        assert on_device or not async_scheduling, "async scheduling requires on-device sampling"
        # Async scheduling prepares a step before the output of the previous step is read. Requests
        # then succeed, but without log probabilities.
        self.has_logprobs = not async_scheduling and not on_device
        from vllm_neuron.model.registry import get_models

        for name, dense in get_models():
            ModelRegistry.register_model(name, dense)
        chosen = ModelRegistry.models[self.config.architectures[0]]
        if self.config.architectures[0].startswith("Neuronmm"):
            check_interface(chosen)
        with torch.device("meta"):
            self.model = chosen.from_configs(self.config, self.neuron_config)
        if os.environ.get("VLLM_NEURON_CPU_COMPILE") == "1":
            assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] in ("trn2", "trn3")
            self.model.load_weights_lite(str(self.folder), torch.device("cpu"), None)
            self.model.to("meta")
            # On the device `meta` the model is traced, but not executed.
            self.model(torch.zeros(4, dtype=torch.long, device="meta"), is_prefill=True)
            return
        self.model.load_weights(str(self.folder), torch.device("cpu"), None)
        self.model.to("cpu")  # fails if a tensor is still on the meta device

    def get_tokenizer(self):
        return AutoTokenizer.from_pretrained(self.folder, trust_remote_code=True)

    @torch.no_grad()
    def logits(self, tokens):
        # Pads the tokens to the bucket of prefill. Causal attention never looks at the padding,
        # which is at the end.
        bucket = self.neuron_config.num_batched_tokens_buckets[0]
        padded = torch.tensor(tokens + [0] * (bucket - len(tokens)))
        return self.model(padded, is_prefill=True)[len(tokens) - 1]

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True):
        tokens, made, logprobs = list(prompts["prompt_token_ids"]), [], []
        assert sampling_params.temperature == 0.0 and len(tokens) + sampling_params.max_tokens <= self.limit
        for _ in range(sampling_params.max_tokens):
            logits = self.logits(tokens).float()
            made.append(int(logits.argmax()))
            values, ids = logits.log_softmax(-1).topk(sampling_params.logprobs or 1)
            logprobs.append({int(i): Logprob(float(v)) for i, v in zip(ids, values)})
            tokens.append(made[-1])
        asked = sampling_params.logprobs is not None and self.has_logprobs
        return [RequestOutput([CompletionOutput(made, logprobs if asked else None)])]
