"""Writes src/gguf/grid_tables.cc, the vectors that GGUF's types IQ1, IQ2 and IQ3 index.

The vectors are those of PyPI's gguf 0.19.0. Each is stored as the numbers of its elements' values, with the first
element in the lowest bits: 2 bits per element for 8 elements, 3 bits per element for 4 elements. Run it with
pip install gguf==0.19.0; python tools/make_gguf_grids.py > src/gguf/grid_tables.cc"""

import numpy as np
from gguf import quants

TABLES = {"kIq2XxsGrid": quants.IQ2_XXS, "kIq2XsGrid": quants.IQ2_XS, "kIq2SGrid": quants.IQ2_S,
          "kIq3XxsGrid": quants.IQ3_XXS, "kIq3SGrid": quants.IQ3_S, "kIq1Grid": quants.IQ1_S}


def packed(kind: type) -> list[int]:
    """Returns the vectors of a type as one number each."""
    kind.init_grid()
    bits = 3 if len(kind.grid_map) == 8 else 2
    values = {float(value): i for i, value in enumerate(kind.grid_map)}
    grid = np.asarray(kind.grid).reshape(kind.grid_shape)
    return [sum(values[float(value)] << bits * i for i, value in enumerate(row)) for row in grid]


print("// Made by tools/make_gguf_grids.py. Do not edit.")
print('#include "gguf/grid_tables.h"\n\nnamespace neuronmm::gguf {\n\n// clang-format off')
for name, kind in TABLES.items():
    numbers = packed(kind)
    print(f"const std::array<uint16_t, {len(numbers)}> {name} = {{{{")
    for i in range(0, len(numbers), 12):
        print("    " + " ".join(f"0x{number:04x}," for number in numbers[i : i + 12]))
    print("}};")
print("// clang-format on\n\n}  // namespace neuronmm::gguf")
