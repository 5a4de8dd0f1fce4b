"""Writes golden_blocks.json, which holds random blocks of each tensor type and their weights.

The weights are the fp32 bits that PyPI's gguf 0.19.0 makes of the blocks. Run it with
pip install gguf==0.19.0; python make_golden_blocks.py > golden_blocks.json
Two numbers make other blocks: python make_golden_blocks.py SEED BLOCKS_PER_TYPE"""

import json
import sys

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type

# These are the places of the f16 scales. The f16 scale of IQ1_M lies in the high halves of four numbers.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "F32": [], "F16": [0],
          "BF16": [], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0],
          "IQ3_S": [0], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": []}
# Finite f16 scales: an ordinary one, a negative one, the largest one and a subnormal one.
HALVES = np.array([0.0123, -1.7, 65504, -6e-8], dtype=np.float16).view(np.uint8).reshape(-1, 2)
seed, per_type = (int(number) for number in sys.argv[1:]) if len(sys.argv) > 1 else (1, 0)
random = np.random.default_rng(seed)
golden = {}
for name, offsets in SCALES.items():
    elements, size = GGML_QUANT_SIZES[Type[name]]
    count = per_type or (2 if elements == 256 else 4)
    blocks = random.integers(0, 256, (count, size)).astype(np.uint8)
    if name in ("F32", "BF16"):
        blocks[:, -1] &= 0x7E  # The values stay finite.
    if name == "MXFP4":
        # The first two scales are not normal numbers. The largest ones would give infinite weights.
        blocks[:, 0] = [[0, 1, 127, 250][i % 4] if i < 4 else blocks[i, 0] % 251 for i in range(count)]
    for i in range(count):
        if name == "IQ1_M":
            half = int(HALVES[(3 * i) % 4].view(np.uint16)[0])
            for part in range(4):
                high = 49 + 2 * part
                blocks[i, high] = (blocks[i, high] & 0xF) | (half >> 4 * part & 0xF) << 4
        for j, offset in enumerate(offsets):
            blocks[i, offset : offset + 2] = HALVES[(i + 2 * (elements == 256) * i + j) % 4]
    weights = gguf.dequantize(blocks.reshape(-1).view(np.float16) if name == "F16" else blocks.reshape(-1), Type[name])
    assert np.isfinite(weights).all()
    golden[name] = {"blocks": blocks.tobytes().hex(), "weights": weights.astype(np.float32).tobytes().hex()}
print(json.dumps(golden, indent=0))
