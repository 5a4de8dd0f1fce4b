"""Runs the exported model in the vLLM Neuron plugin. Never run on a Trainium."""

import time

from common import KERNELS, TOP

BACKEND = "VLLM_NEURON_BACKEND"  # the variable that chooses how graphs are compiled
DISTRIBUTIONS = ("vllm", "vllm-neuron", "nki", "neuronx-cc", "torch", "transformers", "neuronmm-vllm")
# The names that this export calls, with the parameters that it passes, as in the documentation of
# SDK 2.33. "package:Class<Other.method" is beside the class, in the module that defines it.
USED = {
    "vllm:LLM": ("model", "trust_remote_code", "tensor_parallel_size", "dtype", "seed", "kwargs"),
    "vllm:LLM.generate": ("prompts", "sampling_params", "use_tqdm"),
    "vllm:ModelRegistry.register_model": ("model_arch", "model_cls"),
    "vllm_neuron.model.llama3:LlamaForCausalLM.from_configs": ("hf_config", "neuron_config"),
    "vllm_neuron.model.llama3:LlamaForCausalLM.load_weights": ("checkpoint_path", "device", "cache_dir"),
    "vllm_neuron.model.llama3:LlamaForCausalLM.load_weights_lite": ("checkpoint_path", "device", "cache_dir"),
    "vllm_neuron.model.llama3:LlamaForCausalLM<LlamaMLP.forward": ("hidden_states", "is_prefill"),
}
USED_BY_MODEL = {
    "neuronmm_qwen3": {
        "vllm_neuron.model.qwen3:Qwen3ForCausalLM.from_configs": ("hf_config", "neuron_config"),
        "vllm_neuron.model.qwen3:Qwen3ForCausalLM.load_weights": ("checkpoint_path", "device", "cache_dir"),
        "vllm_neuron.model.qwen3:Qwen3ForCausalLM<Qwen3MLP.forward": ("hidden_states", "is_prefill"),
    },
}
USED_BY_KERNELS = {"nki:simulate": ("kernel",), "libtorch_neuronx_lite.nki.nki_hop:wrap_nki": ()}


def environment(mode, device):
    """Returns the environment variables that must be set before vLLM is imported.

    mode: "cpu", "compile" (on a CPU) or "device". Both mode variables are always set, because the
    plugin refuses two modes at once and the shell may have set one. Without a device only
    NEURON_PLATFORM_TARGET_OVERRIDE names the device. The graph is compiled on the native route, since
    the other one (XLA) is deprecated in SDK 2.33.
    """
    target_variables = {} if mode == "device" else {"NEURON_PLATFORM_TARGET_OVERRIDE": device}
    return target_variables | {
        BACKEND: "neuron_native",
        "VLLM_NEURON_CPU_MODE": str(int(mode == "cpu")),
        "VLLM_NEURON_CPU_COMPILE": str(int(mode == "compile")),
    }


def kernel_environment(on):
    return {"NEURONMM_KERNELS": str(KERNELS) if on else ""}


class Engine:
    """A model in vLLM.

    Mode "compile" ends after the compilation, which happens while the model is loaded. With
    `logits` the engine can return log probabilities. The plugin then samples on the host, because
    sampling on the device or with asynchronous scheduling returns none.
    """

    TIMES_FIRST_TOKEN_SEPARATELY = True  # the first token is timed by a request of its own

    def __init__(self, export, folder, mode, logits=False):
        from vllm import LLM, SamplingParams

        self.sampling = SamplingParams
        prompt = export["prompt_tokens"]
        # There is one bucket of each kind, so that a prefill has the rows that the kernels expect.
        neuron = {"num_batched_tokens_buckets": [prompt], "num_seqs_buckets": [1]}
        on_host = {"async_scheduling": False} if logits else {}
        if logits:
            neuron["on_device_sampling_config"] = None
        self.llm = LLM(
            model=str(folder), trust_remote_code=True, dtype="bfloat16", seed=0, tensor_parallel_size=1, max_num_seqs=1,
            max_model_len=export["sequence_length"], max_num_batched_tokens=prompt, enable_prefix_caching=False,
            enforce_eager=mode == "cpu", additional_config={"neuron_config": neuron}, **on_host,
        )  # fmt: skip

    def request_completion(self, tokens, count, logprobs=None):
        # min_tokens is not used, because it would remove the end of text from the logits.
        sampling = self.sampling(temperature=0.0, max_tokens=count, ignore_eos=True, logprobs=logprobs)
        prompt = {"prompt_token_ids": list(tokens)}
        return self.llm.generate(prompt, sampling, use_tqdm=False)[0].outputs[0]

    def generate(self, tokens, count):
        return list(self.request_completion(tokens, count).token_ids)

    def text(self, prompt, count):
        tokenizer = self.llm.get_tokenizer()
        return tokenizer.decode(self.generate(tokenizer.encode(prompt), count))

    def log_probabilities(self, tokens, first):
        """Yields {token id: log probability} per position, each from a prefill of its own. Decoding
        is compared by its tokens.
        """
        for end in range(first + 1, len(tokens) + 1):
            generated = self.request_completion(tokens[:end], 1, TOP).logprobs
            if not generated:
                raise RuntimeError("the plugin gave no log probabilities, though it was asked to sample on the host")
            yield {token: entry.logprob for token, entry in generated[0].items()}

    def run_once(self, prompt_tokens, new_tokens):
        tokens = [1 + i % 100 for i in range(prompt_tokens)]
        start = time.perf_counter()
        self.request_completion(tokens, 1)
        first = time.perf_counter() - start
        start = time.perf_counter()
        self.request_completion(tokens, new_tokens)
        return first, time.perf_counter() - start
