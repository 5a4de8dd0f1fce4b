def get_models():
    from .llama3.model import LlamaForCausalLM
    from .qwen3.model import Qwen3ForCausalLM

    return [("LlamaForCausalLM", LlamaForCausalLM), ("Qwen3ForCausalLM", Qwen3ForCausalLM)]
