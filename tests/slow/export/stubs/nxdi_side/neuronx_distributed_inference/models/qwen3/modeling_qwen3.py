from ..config import InferenceConfig
from ..llama.modeling_llama import NeuronLlamaForCausalLM
from ..model_base import DecoderLayer, NeuronBaseModel


class Qwen3InferenceConfig(InferenceConfig):
    pass


class NeuronQwen3DecoderLayer(DecoderLayer):
    def call_mlp(self, x):
        return self.mlp(x, rmsnorm=None, adapter_ids=None)[0]


class NeuronQwen3Model(NeuronBaseModel):
    layer_class = NeuronQwen3DecoderLayer
    qk_norm = True

    def init_model(self, config):
        super().init_model(config)


class NeuronQwen3ForCausalLM(NeuronLlamaForCausalLM):
    _model_cls = NeuronQwen3Model

    @staticmethod
    def convert_hf_to_neuron_state_dict(state_dict: dict, config: InferenceConfig) -> dict:
        for layer in range(config.num_hidden_layers):
            for name in "qk":
                stem = f"layers.{layer}.self_attn.{name}"
                state_dict[f"{stem}_layernorm.weight"] = state_dict[f"{stem}_norm.weight"].detach().clone()
        return NeuronLlamaForCausalLM.convert_hf_to_neuron_state_dict(state_dict, config)

    @classmethod
    def get_config_cls(cls):
        return Qwen3InferenceConfig
