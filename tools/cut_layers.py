#!/usr/bin/env python3
"""Writes a GGUF file with only the first layers of another one, its final norm and its head: a drafter for it.

Such a drafter knows the target's vocabulary and little else; it is for trying the drafter `draft` where no smaller
model of the family is at hand, and shows what a poor one costs. Settings, tokenizer and tensor bytes are copied.

Needs gguf and numpy. Never needed to build, run or test foray.

    tools/cut_layers.py IN.gguf OUT.gguf LAYERS
"""

import argparse
import re

import gguf


def copy_field(writer, field):
    kind = field.types[0]
    if kind == gguf.GGUFValueType.ARRAY:
        writer.add_key_value(field.name, field.contents(), kind, sub_type=field.types[1])
    else:
        writer.add_key_value(field.name, field.contents(), kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("layers", type=int)
    a = parser.parse_args()
    reader = gguf.GGUFReader(a.source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(a.out, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        if field.name == f"{arch}.block_count":
            writer.add_block_count(min(a.layers, int(field.contents())))
        else:
            copy_field(writer, field)
    kept = 0
    for t in reader.tensors:
        layer = re.match(r"blk\.(\d+)\.", t.name)
        if layer and int(layer.group(1)) >= a.layers:
            continue
        writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
        kept += 1
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{a.out}: {kept} of {len(reader.tensors)} tensors")


if __name__ == "__main__":
    main()
