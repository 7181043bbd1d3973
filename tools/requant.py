#!/usr/bin/env python3
"""Writes a GGUF file again with all weight matrices in another type.

For measuring speed and for trying every type on a real file, not for quality: the values come from the file's own
(already rounded) ones, and the quantisers here are the plain ones, one scale from the largest value of a block,
without any search. Vectors (norms, biases) stay F32; settings and tokenizer are copied.

The K types need rows of whole 256-blocks. A matrix whose rows are not gets the nearest plain type instead, as
the usual tools do: Q4_K -> Q5_0, Q5_K -> Q5_1, Q6_K -> Q8_0.

Needs gguf and numpy. Never needed to build, run or test foray.

    tools/requant.py IN.gguf OUT.gguf TYPE        TYPE: f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_k q5_k q6_k
"""

import argparse
import collections
import os

import gguf
import numpy as np
from gguf import quants

TYPES = {n.lower(): getattr(gguf.GGMLQuantizationType, n)
         for n in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")}

# For rows that are no multiple of 256.
FALLBACK = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}

FILE_TYPES = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16", "q4_k": "MOSTLY_Q4_K_M",
              "q5_k": "MOSTLY_Q5_K_M"}

BATCH = 4096  # rows at a time: bounds memory


def ratio(a, b):
    """a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def f16_bytes(x):
    return x.astype("<f2")[:, None].view(np.uint8)


def sub_scales(x, levels):
    """Scales and minima of 8 sub-blocks of 32, in 6 bits each under one d and one dmin per block of 256.

    x: [blocks, 8, 32]. Returns d, dmin [blocks] f16 values as f32, scale, minimum [blocks, 8] 0…63, and the
    quants [blocks, 8, 32] 0…levels for which x is about d scale q - dmin minimum."""
    low = np.maximum(-x.min(axis=2), 0)
    step = np.maximum(x.max(axis=2) + low, 0) / levels
    d = (step.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    dmin = (low.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    scale = np.clip(np.rint(ratio(step, d[:, None])), 0, 63)
    minimum = np.clip(np.rint(ratio(low, dmin[:, None])), 0, 63)
    q = ratio(x + (dmin[:, None] * minimum)[..., None], (d[:, None] * scale)[..., None])
    return d, dmin, scale.astype(np.uint8), minimum.astype(np.uint8), np.clip(np.rint(q), 0, levels).astype(np.uint8)


def pack_sub_scales(scale, minimum):
    """8 scales and 8 minima of 6 bits in 12 bytes: the first four whole, the last four split 4 + 2."""
    head_s, head_m = scale[:, :4] | (scale[:, 4:] >> 4) << 6, minimum[:, :4] | (minimum[:, 4:] >> 4) << 6
    return np.concatenate([head_s, head_m, (scale[:, 4:] & 15) | (minimum[:, 4:] & 15) << 4], axis=1)


def pack_nibbles(q):
    """[blocks, 8, 32] 4-bit values: of each pair of sub-blocks the first in the low half of 32 bytes."""
    return (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(q), 128)


def quantize_q4_k(x):
    d, dmin, scale, minimum, q = sub_scales(x.reshape(-1, 8, 32), 15)
    return np.concatenate([f16_bytes(d), f16_bytes(dmin), pack_sub_scales(scale, minimum), pack_nibbles(q)], axis=1)


def quantize_q5_k(x):
    d, dmin, scale, minimum, q = sub_scales(x.reshape(-1, 8, 32), 31)
    fifth = np.zeros((len(q), 32), np.uint8)  # bit j of byte i: the top bit of element i of sub-block j
    for j in range(8):
        fifth |= (q[:, j] >> 4) << j
    return np.concatenate([f16_bytes(d), f16_bytes(dmin), pack_sub_scales(scale, minimum), fifth,
                           pack_nibbles(q & 15)], axis=1)


def quantize_q6_k(x):
    x = x.reshape(-1, 16, 16)
    step = np.abs(x).max(axis=2) / 31
    d = (step.max(axis=1) / 127).astype(np.float16).astype(np.float32)
    scale = np.clip(np.rint(ratio(step, d[:, None])), 0, 127)
    q = np.clip(np.rint(ratio(x, (d[:, None] * scale)[..., None])), -32, 31)
    q = (q + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # half, quarter of the half, element
    low = np.concatenate([(q[:, :, 0] & 15) | (q[:, :, 2] & 15) << 4, (q[:, :, 1] & 15) | (q[:, :, 3] & 15) << 4],
                         axis=2)
    high = q[:, :, 0] >> 4 | q[:, :, 1] >> 4 << 2 | q[:, :, 2] >> 4 << 4 | q[:, :, 3] >> 4 << 6
    blocks = len(q)
    return np.concatenate([low.reshape(blocks, 128), high.reshape(blocks, 64),
                           scale.astype(np.int8).view(np.uint8), f16_bytes(d)], axis=1)


OWN = {"q4_k": quantize_q4_k, "q5_k": quantize_q5_k, "q6_k": quantize_q6_k}


def quantize(x, name):
    """x: [rows, cols] f32. Returns the file's bytes, [rows, row bytes], or the plain array for F32 and F16."""
    if name in OWN:
        return OWN[name](x).reshape(len(x), -1)
    if name == "f16":
        return x.astype("<f2")
    return x if name == "f32" else quants.quantize(x, TYPES[name])


def copy_settings(reader, writer, name):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub)
    writer.add_file_type(getattr(gguf.LlamaFileType, FILE_TYPES.get(name, "MOSTLY_" + name.upper())))


def requantize(source, target, name):
    """Returns how many tensors of each type were written."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.get_field(gguf.Keys.General.ARCHITECTURE).contents())
    copy_settings(reader, writer, name)
    counts = collections.Counter()
    for t in reader.tensors:
        if len(t.shape) != 2:
            counts[t.tensor_type.name] += 1
            writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
            continue
        cols = int(t.shape[0])
        kind = FALLBACK[name] if name in FALLBACK and cols % 256 else name
        counts[kind.upper()] += 1
        data = np.concatenate([quantize(quants.dequantize(t.data[i:i + BATCH], t.tensor_type), kind)
                               for i in range(0, len(t.data), BATCH)])
        writer.add_tensor(t.name, data, raw_dtype=TYPES[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("type", choices=TYPES)
    a = parser.parse_args()
    beside = a.target + ".part"
    counts = requantize(a.source, beside, a.type)
    os.replace(beside, a.target)
    print(a.target, os.path.getsize(a.target), "bytes:", ", ".join(f"{n} {t}" for t, n in counts.items()))


if __name__ == "__main__":
    main()
