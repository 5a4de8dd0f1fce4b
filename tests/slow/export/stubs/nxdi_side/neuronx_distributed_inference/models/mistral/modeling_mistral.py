from ..config import InferenceConfig
from ..llama.modeling_llama import NeuronLlamaForCausalLM
from ..model_base import DecoderLayer, NeuronBaseModel


class MistralInferenceConfig(InferenceConfig):
    pass


class NeuronMistralDecoderLayer(DecoderLayer):
    def call_mlp(self, x):
        return self.mlp(x)[0]


class NeuronMistralModel(NeuronBaseModel):
    layer_class = NeuronMistralDecoderLayer

    def init_model(self, config):
        super().init_model(config)


class NeuronMistralForCausalLM(NeuronLlamaForCausalLM):
    _model_cls = NeuronMistralModel

    @staticmethod
    def convert_hf_to_neuron_state_dict(state_dict: dict, config: InferenceConfig) -> dict:
        return NeuronLlamaForCausalLM.convert_hf_to_neuron_state_dict(state_dict, config)

    @classmethod
    def get_config_cls(cls):
        return MistralInferenceConfig
