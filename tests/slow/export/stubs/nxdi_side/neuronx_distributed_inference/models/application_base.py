import os
import pathlib

import torch
from safetensors.torch import load_file
from stub_decoder import check_dtype


class NeuronApplicationBase(torch.nn.Module):
    _STATE_DICT_MODEL_PREFIX, _NEW_STATE_DICT_MODEL_PREFIX = "model.", ""

    def __init__(self, model_path, config=None):
        super().__init__()
        self.model_path, self.config, self.neuron_config = model_path, config, config.neuron_config
        self.decoder = None

    def compile(self, compiled_model_path, debug=False, pre_shard_weights_hook=None, dry_run=False):
        """Traces the model without its weights."""
        with torch.device("meta"):
            decoder = self._model_cls(self.config)
        for layer in decoder.layers:
            layer.mlp(torch.zeros(1, 4, self.config.hidden_size, device="meta"))
        pathlib.Path(compiled_model_path).mkdir(parents=True)
        (pathlib.Path(compiled_model_path) / "model.pt").write_text("compiled")

    def load(self, compiled_model_path, start_rank_id=None, local_ranks_size=None, skip_warmup=False):
        assert (pathlib.Path(compiled_model_path) / "model.pt").read_text() == "compiled"
        assert os.environ.get("STUB_DEVICE") == "1", "no Neuron device"
        self.make()

    def to_cpu(self):
        assert os.environ.get("NXD_CPU_MODE") == "1"
        self.make()

    def make(self):
        dtype = check_dtype(self.neuron_config.torch_dtype)
        self.decoder = self._model_cls(self.config).to(dtype).eval()
        tensors = self.get_state_dict(self.model_path, self.config)
        tensors = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}
        missing, _ = self.decoder.load_state_dict(tensors, strict=False)
        assert not missing, f"never loaded: {missing}"

    @classmethod
    def get_state_dict(cls, model_name_or_path, config):
        tensors = {}
        for path in sorted(pathlib.Path(model_name_or_path).glob("*.safetensors")):
            tensors |= load_file(path)
        prefix = cls._STATE_DICT_MODEL_PREFIX
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        tensors = cls.convert_hf_to_neuron_state_dict(tensors, config)
        if getattr(config, "tie_word_embeddings", False):
            cls.update_state_dict_for_tied_weights(tensors)
        return tensors
