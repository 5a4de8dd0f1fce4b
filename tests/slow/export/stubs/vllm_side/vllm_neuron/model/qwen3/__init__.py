from .model_bf16 import Qwen3ForCausalLM as Qwen3ForCausalLM
