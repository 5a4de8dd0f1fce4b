def get_models():
    from .llama3 import LlamaForCausalLM
    from .qwen3 import Qwen3ForCausalLM

    return [("LlamaForCausalLM", LlamaForCausalLM), ("Qwen3ForCausalLM", Qwen3ForCausalLM)]
