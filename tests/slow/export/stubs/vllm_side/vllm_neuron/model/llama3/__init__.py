from .model import LlamaForCausalLM as LlamaForCausalLM
