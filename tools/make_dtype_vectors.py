#!/usr/bin/env python3
"""Writes tests/unit/dtype_vectors.h: random blocks of every quantised type and their values.

The values come from the `gguf` Python package (gguf.quants.dequantize), which is independent of foray.
Needs: pip install gguf numpy. Usage: tools/make_dtype_vectors.py > tests/unit/dtype_vectors.h
"""
import gguf
import numpy as np

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Where a block holds f16 scales: random bytes there would be NaN or huge.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208]}


def rows(values, per_line, text):
    lines = []
    for i in range(0, len(values), per_line):
        lines.append("        " + ", ".join(text(v) for v in values[i:i + per_line]) + ",")
    return "\n".join(lines)


def main():
    rng = np.random.default_rng(20240611)
    print("/* dtype_vectors.h: random blocks and their values as the `gguf` Python package %s expands them."
          % getattr(gguf, "__version__", "0.19.0"))
    print(" * Made by tools/make_dtype_vectors.py; do not edit. Values are the bits of f32. */")
    print("/* clang-format off */")
    print("static const struct {\n    dtype type;\n    int bytes, count;\n    uint8_t block[512];\n"
          "    uint32_t value[512];\n} vectors[] = {")
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        per_block, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = 2 if per_block == 256 else 3
        data = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
        for at in SCALES[name]:
            scale = rng.normal(0, 0.02, blocks).astype(np.float16)
            data[:, at:at + 2] = scale.view(np.uint8).reshape(blocks, 2)
        values = gguf.quants.dequantize(data, kind).astype(np.float32).reshape(-1)
        print("    { DTYPE_%s, %d, %d, {" % (name, data.size, values.size))
        print(rows(list(data.reshape(-1)), 20, lambda v: str(int(v))))
        print("    }, {")
        print(rows(list(values.view(np.uint32)), 10, lambda v: "0x%08x" % int(v)))
        print("    } },")
    print("};")


main()
