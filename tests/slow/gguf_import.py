"""Tests `neuronmm import` with the package gguf of PyPI.

usage: gguf_import.py NEURONMM WORK_FOLDER [SEED]

Random GGUF files of every tensor type and architecture are written and imported, and every weight
is compared bit for bit. Valid but unusual files must be accepted. Damaged files must be refused
with a message that names the file or tensor.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from safetensors import safe_open

PROGRAM, WORK = sys.argv[1], pathlib.Path(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else np.random.SeedSequence().entropy % 2**32
random = np.random.default_rng(SEED)
print("seed", SEED)

# The byte offsets of the f16 scales within a block.
SCALES = {
    Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.IQ1_S: [0], Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0],
    Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.TQ1_0: [52], Type.TQ2_0: [64],
}
TYPES = [Type.F32, Type.F16, Type.BF16, *SCALES]
EXTREME = np.array([65504, -65504, 6e-8, -6e-8, 6.1e-5, 0.0, -0.0, 1.0], dtype=np.float16)


def halves(count, extreme):
    """Returns random finite f16 numbers, of all magnitudes or only of extreme ones."""
    if extreme:
        return random.choice(EXTREME, count)
    bits = random.integers(0, 2**16, count).astype(np.uint16)
    bits[(bits & 0x7C00) == 0x7C00] ^= 0x4000
    return bits.view(np.float16)


def random_tensor(shape, kind, extreme=False):
    """Returns the bytes of a random tensor as in the file, [..., bytes of a row], and its fp32
    values.
    """
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    if kind == Type.F32:
        data = (random.standard_normal(shape) * 10.0 ** random.integers(-20, 20, shape)).astype(np.float32)
        return data, data
    if kind == Type.F16:
        data = halves(rows * columns, extreme).reshape(shape)
        return data, data.astype(np.float32)
    if kind == Type.BF16:
        bits = random.integers(0, 2**16, rows * columns).astype(np.uint16)
        bits[(bits & 0x7F80) == 0x7F80] ^= 0x4000
        raw = bits.view(np.uint8).reshape(*shape[:-1], columns * 2)
        return raw, gguf.dequantize(raw, kind).reshape(shape)
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * columns // elements, size)).astype(np.uint8)
    for at in SCALES[kind]:
        blocks[:, at : at + 2] = halves(len(blocks), extreme).view(np.uint8).reshape(-1, 2)
    raw = blocks.reshape(*shape[:-1], columns // elements * size)
    return raw, gguf.dequantize(raw, kind).reshape(shape)


def permuted(weights, heads):
    """Returns the rows of q or k in the order that convert_hf_to_gguf.py gives them for llama."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(
        weights.shape)


NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def folder_name(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.{parts[3]}"
    return f"{NAMES[parts[0]]}.{parts[1]}"


class Model:
    """A model of random shape.

    It holds the tensors of the GGUF file, whose types are among `kinds`, and the values that the
    imported folder must have.
    """

    def __init__(self, architecture, kinds=TYPES, bias=None, tied=None, extreme=False, block=256):
        self.architecture, self.kinds, self.extreme = architecture, list(kinds), extreme
        self.kv = int(random.integers(1, 4))
        self.heads = self.kv * int(random.integers(1, 4))
        self.head_dim = int(random.choice([16, 32, 64]))
        self.layers = int(random.integers(1, 4))
        self.hidden = block * int(random.integers(1, 3))
        self.ffn = block * int(random.integers(1, 3))
        self.vocab = int(random.integers(300, 600))
        self.tied = bool(random.integers(0, 2)) if tied is None else tied
        self.bias = architecture == "qwen2" if bias is None else bias
        # Rows of the output projection must consist of whole blocks.
        while self.heads * self.head_dim % block != 0:
            self.heads += self.kv
        self.tensors = {}
        self.fill()

    def add(self, name, shape, kind=None, heads=0):
        kind = kind if kind is not None else self.kinds[int(random.integers(len(self.kinds)))]
        raw, values = random_tensor(shape, kind, self.extreme)
        if heads and self.architecture == "llama":
            # `values` has the order of rows in the file. The folder must have the original order.
            order = permuted(np.arange(shape[0]), heads)
            original = np.empty_like(values)
            original[order] = values
            values = original
        self.tensors[name] = (kind, raw, values)

    def fill(self):
        q, kv = self.heads * self.head_dim, self.kv * self.head_dim
        self.add("token_embd.weight", (self.vocab, self.hidden))
        for i in range(self.layers):
            at = f"blk.{i}."
            self.add(at + "attn_norm.weight", (self.hidden,), Type.F32)
            self.add(at + "ffn_norm.weight", (self.hidden,), Type.F32)
            self.add(at + "attn_q.weight", (q, self.hidden), heads=self.heads)
            self.add(at + "attn_k.weight", (kv, self.hidden), heads=self.kv)
            self.add(at + "attn_v.weight", (kv, self.hidden))
            self.add(at + "attn_output.weight", (self.hidden, q))
            if self.bias:
                self.add(at + "attn_q.bias", (q,), Type.F32, heads=self.heads)
                self.add(at + "attn_k.bias", (kv,), Type.F32, heads=self.kv)
                self.add(at + "attn_v.bias", (kv,), Type.F32)
            if self.bias == "all":
                self.add(at + "attn_output.bias", (self.hidden,), Type.F32)
            if self.architecture == "qwen3":
                self.add(at + "attn_q_norm.weight", (self.head_dim,), Type.F32)
                self.add(at + "attn_k_norm.weight", (self.head_dim,), Type.F32)
            self.add(at + "ffn_gate.weight", (self.ffn, self.hidden))
            self.add(at + "ffn_up.weight", (self.ffn, self.hidden))
            self.add(at + "ffn_down.weight", (self.hidden, self.ffn))
        self.add("output_norm.weight", (self.hidden,), Type.F32)
        if not self.tied:
            self.add("output.weight", (self.vocab, self.hidden))

    def write(self, path, shuffle=False, extra=None, splits=0, alignment=None, omit=(), keys=None):
        keywords = {"split_max_tensors": -(-len(self.tensors) // splits)} if splits else {}
        writer = gguf.GGUFWriter(path, self.architecture, **keywords)
        if alignment:
            writer.add_custom_alignment(alignment)
        name = self.architecture + "."
        settings = {
            name + "context_length": 512, name + "embedding_length": self.hidden, name + "block_count": self.layers,
            name + "feed_forward_length": self.ffn, name + "attention.head_count": self.heads,
            name + "attention.head_count_kv": self.kv, name + "attention.key_length": self.head_dim,
            name + "attention.value_length": self.head_dim, name + "rope.dimension_count": self.head_dim,
        }
        settings.update(keys or {})
        for key, value in settings.items():
            if key not in omit and isinstance(value, int):
                writer.add_uint32(key, value)
            elif isinstance(value, str):
                writer.add_string(key, value)
            elif isinstance(value, float):
                writer.add_float32(key, value)
            elif isinstance(value, list):
                writer.add_array(key, value)
        writer.add_float32(name + "attention.layer_norm_rms_epsilon", 1e-5)
        if name + "rope.freq_base" not in omit:
            writer.add_float32(name + "rope.freq_base", 10000.0)
        names = list(self.tensors)
        if shuffle:
            random.shuffle(names)
        for tensor in names:
            kind, raw, _ = self.tensors[tensor]
            plain = kind in (Type.F32, Type.F16)
            writer.add_tensor(tensor, raw, raw_dtype=None if plain else kind)
        for tensor, data in (extra or {}).items():
            writer.add_tensor(tensor, data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def compare(self, folder, dtype):
        with safe_open(folder / "model.safetensors", "np") as weights:
            expected = {folder_name(name): values for name, (_, _, values) in self.tensors.items()}
            assert set(weights.keys()) == set(expected), set(weights.keys()) ^ set(expected)
        for name, values in expected.items():
            stored = read_bits(folder / "model.safetensors", name)
            assert list(stored.shape) == list(values.shape), (name, stored.shape, values.shape)
            assert np.array_equal(stored, rounded(values, dtype)), f"{name} differs in {dtype}"


def rounded(values, dtype):
    bits = np.ascontiguousarray(values).view(np.uint32)
    if dtype == "f32":
        return bits
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    wide = bits.astype(np.uint64)
    return ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)


def read_bits(path, name):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(length))[name]
        begin, end = entry["data_offsets"]
        file.seek(8 + length + begin)
        return np.frombuffer(file.read(end - begin),
                             np.uint32 if entry["dtype"] == "F32" else np.uint16).reshape(entry["shape"])


def run(*arguments):
    return subprocess.run([PROGRAM, "import", *map(str, arguments)], capture_output=True, text=True)


def imported(path, dtype="f32"):
    folder = WORK / "out"
    result = run(path, "-o", folder, "--dtype", dtype, "--force")
    assert result.returncode == 0, (path, result.returncode, result.stderr)
    return folder


def refused(path, *words, dtype="f32"):
    shutil.rmtree(WORK / "refused", ignore_errors=True)
    result = run(path, "-o", WORK / "refused", "--dtype", dtype)
    assert result.returncode == 1, (path, result.returncode, result.stderr)
    for word in words:
        assert word in result.stderr, (word, result.stderr)
    assert not (WORK / "refused").exists() and not (WORK / "refused.partial").exists()


def every_type():
    for kind in TYPES:
        for extreme in (False, True):
            model = Model("llama", [kind], extreme=extreme)
            model.write(WORK / "type.gguf")
            model.compare(imported(WORK / "type.gguf"), "f32")
            model.compare(imported(WORK / "type.gguf", "bf16"), "bf16")
            blocks = sum(values.size // GGML_QUANT_SIZES[kind][0] for _, (k, _, values) in model.tensors.items() if k == kind)
        print(kind.name, f"{blocks} blocks", flush=True)


def every_architecture():
    for architecture in ("llama", "qwen2", "qwen3"):
        for _ in range(4):
            model = Model(architecture)
            model.write(WORK / "model.gguf", shuffle=True)
            model.compare(imported(WORK / "model.gguf"), "f32")
    for bias, name in ((True, "Qwen2ForCausalLM"), ("all", "LlamaForCausalLM")):
        model = Model("llama", bias=bias)
        model.write(WORK / "model.gguf")
        folder = imported(WORK / "model.gguf")
        model.compare(folder, "f32")
        assert json.loads((folder / "config.json").read_text())["architectures"] == [name]
    small = Model("llama", [Type.Q8_0], block=32)
    # Makes the values fit into the range of f16.
    for name, (kind, raw, values) in small.tensors.items():
        if kind == Type.F32:
            small.tensors[name] = (kind, np.tanh(raw), np.tanh(values))
    biggest = max(float(abs(values).max()) for _, _, values in small.tensors.values())
    small.write(WORK / "model.gguf")
    if biggest >= 65520:
        refused(WORK / "model.gguf", "too large for F16", dtype="f16")
    else:
        small.compare(imported(WORK / "model.gguf", "f16"), "f16")


def unusual():
    model = Model("llama")
    for alignment in (8, 64, 4096):
        model.write(WORK / "model.gguf", alignment=alignment, shuffle=True)
        model.compare(imported(WORK / "model.gguf"), "f32")
    model.write(WORK / "model.gguf", keys={"nested.numbers": [[1, 2], [3]], "nested.words": ["a", "ü"]},
                extra={"mm.projector.weight": np.zeros((2, 3), np.float32)},
                omit={"llama.rope.freq_base", "llama.rope.dimension_count"})
    folder = imported(WORK / "model.gguf")
    model.compare(folder, "f32")
    assert json.loads((folder / "config.json").read_text())["rope_theta"] == 10000.0
    model.write(WORK / "split.gguf", splits=3)
    parts = sorted(WORK.glob("split-0000*-of-0000*.gguf"))
    assert len(parts) == 3, parts
    for part in parts:
        model.compare(imported(part), "f32")
    parts[1].rename(WORK / "aside")
    refused(parts[0], parts[1].name)
    (WORK / "aside").rename(parts[1])


def rope():
    """Tests that import recovers the parameters of Llama 3's RoPE scaling from its divisors.

    The divisors are computed as in the converter of llama.cpp. Other kinds of scaling are tested,
    too.
    """
    for head_dim in (16, 64):
        for theta in (10000.0, 500000.0):
            for factor, low, high, context in ((8.0, 1.0, 4.0, 8192), (32.0, 1.0, 4.0, 8192), (4.0, 1.0, 2.0, 64)):
                model = Model("llama", [Type.F32], block=32)
                while model.head_dim != head_dim:
                    model = Model("llama", [Type.F32], block=32)
                turns = (theta ** (-np.arange(0, head_dim, 2) / head_dim) / (2 * np.pi) * context).astype(np.float32)
                kept = np.clip((turns - low) / (high - low), 0, 1)
                divisors = (1 / ((1 - kept) / factor + kept)).astype(np.float32)
                model.write(WORK / "rope.gguf", extra={"rope_freqs.weight": divisors}, omit={"llama.rope.freq_base"},
                            keys={"llama.rope.freq_base": theta})
                folder = imported(WORK / "rope.gguf")
                scaling = json.loads((folder / "config.json").read_text())["rope_scaling"]
                if (divisors == 1).all():
                    assert scaling is None
                    continue
                again = turns / context * scaling["original_max_position_embeddings"]
                found = np.clip((again - scaling["low_freq_factor"]) /
                                (scaling["high_freq_factor"] - scaling["low_freq_factor"]), 0, 1)
                assert np.allclose(1 / ((1 - found) / scaling["factor"] + found), divisors, rtol=2e-4), scaling
                if context == 8192 and head_dim == 64 and theta == 500000.0:
                    assert scaling == {"rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                                       "high_freq_factor": high, "original_max_position_embeddings": context}, scaling
    model = Model("llama", [Type.F32], block=32)
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    model.write(WORK / "rope.gguf", keys=linear)
    config = json.loads((imported(WORK / "rope.gguf") / "config.json").read_text())
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}, config
    yarn = {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0,
            "llama.rope.scaling.original_context_length": 32, "llama.rope.scaling.yarn_beta_fast": 16.0}
    model.write(WORK / "rope.gguf", keys=yarn)
    config = json.loads((imported(WORK / "rope.gguf") / "config.json").read_text())
    assert config["rope_scaling"] == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
                                      "beta_fast": 16.0}, config
    model.write(WORK / "rope.gguf", keys={"llama.rope.scaling.type": "longrope"})
    refused(WORK / "rope.gguf", "llama.rope.scaling.type", "longrope")


def damaged():
    model = Model("llama", [Type.Q8_0], block=32)
    model.write(WORK / "whole.gguf")
    whole = (WORK / "whole.gguf").read_bytes()
    cuts = {0, 1, 4, 8, 16, 24, len(whole) // 2, len(whole) - 40, *map(int, random.integers(0, len(whole) - 40, 60))}
    for cut in cuts:
        (WORK / "cut.gguf").write_bytes(whole[:cut])
        refused(WORK / "cut.gguf", "cut.gguf")
    for scale in (np.inf, np.nan):
        broken = Model("llama", [Type.Q8_0], block=32)
        _, raw, _ = broken.tensors["blk.0.ffn_up.weight"]
        raw[3, :2] = np.array([scale], np.float16).view(np.uint8)
        broken.write(WORK / "scale.gguf")
        refused(WORK / "scale.gguf", "blk.0.ffn_up.weight", "Q8_0", "finite")
    refused(WORK, "is a folder", "whole.gguf")
    # Whatever byte of the header changes, the program must report an error or write a folder.
    header = whole.index(b"output_norm.weight") + 60
    for _ in range(300):
        bytes_ = bytearray(whole)
        bytes_[int(random.integers(0, header))] = int(random.integers(0, 256))
        (WORK / "flip.gguf").write_bytes(bytes_)
        result = run(WORK / "flip.gguf", "-o", WORK / "out", "--force")
        assert result.returncode in (0, 1), (result.returncode, result.stderr)


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
for check in (every_type, every_architecture, unusual, rope, damaged):
    check()
    print(check.__name__, "passed", flush=True)
