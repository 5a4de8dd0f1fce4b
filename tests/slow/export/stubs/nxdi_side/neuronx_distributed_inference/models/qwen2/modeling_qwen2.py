from ..config import InferenceConfig
from ..llama.modeling_llama import NeuronLlamaForCausalLM
from ..model_base import DecoderLayer, NeuronBaseModel


class Qwen2InferenceConfig(InferenceConfig):
    pass


class NeuronQwen2DecoderLayer(DecoderLayer):
    def call_mlp(self, x):
        return self.mlp(x, adapter_ids=None)[0]


class NeuronQwen2Model(NeuronBaseModel):
    layer_class = NeuronQwen2DecoderLayer
    bias = True

    def init_model(self, config):
        super().init_model(config)


class NeuronQwen2ForCausalLM(NeuronLlamaForCausalLM):
    _model_cls = NeuronQwen2Model

    @staticmethod
    def convert_hf_to_neuron_state_dict(state_dict: dict, config: InferenceConfig) -> dict:
        return NeuronLlamaForCausalLM.convert_hf_to_neuron_state_dict(state_dict, config)

    @classmethod
    def get_config_cls(cls):
        return Qwen2InferenceConfig
