#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: small tokenizers of every kind foray reads, and what the reference makes of texts.

    python3 tools/make_tokenizer_vectors.py        (needs the Python package tokenizers)

Each NAME.json is a tokenizer.json of some hundred tokens, trained on the few sentences below with the
pre-tokenizer, normaliser and decoder of a real family. cases.json holds the texts, NAME.ids their ids, one line
per text; nano.ids are those of models/nano. All of it is made by the tokenizers library; foray's own code has no part
in it.
"""
import json
import pathlib
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TOP = pathlib.Path(__file__).resolve().parent.parent
OUT = TOP / "tests" / "golden" / "tokenizers"
CASES = 300
SPACE = "\u2581"

CORPUS = [
    "The drafter rides ahead and proposes tokens; the target model verifies them in one pass.",
    "It's what we'll do, they're sure, I'm not, you've seen it, he'd know: don't DON'T.",
    "for (int i = 0; i < 100; i++) {\n    total += price[i] * 1.25;\n}\n\n    return total;\n",
    "In 1984 there were 12345 of them, 67890 by 2024, and 3.14159 is not 22/7.",
    "Größe, naïve, café, Ångström, œuvre; résumé, señor, façade, über, ÉCOLE.",
    "Привет, мир! Как дела? Хорошо, спасибо. Где находится библиотека?",
    "你好，世界。这是一个测试。日本語のテキストもあります。カタカナとひらがな。",
    "안녕하세요 세계. 한국어 텍스트입니다. नमस्ते दुनिया। مرحبا بالعالم. שלום עולם",
    "👍 👨‍👩‍👧 🇩🇪 ½ ² Ⅷ ٣٤ ①\ttab\r\nline\n\n\n  two  three   spaces",
    "<div class=\"x\">see page/two?q=a&b=c#d</div> -- ... !!! ??? ::",
]

WORDS = ["the", "Token", "I'm", "don't", "THEY'RE", "it'S", "'s", "naïve", "straße", "ſ", "x86_64", "Δv", "привет", "שלום",
         "مرحبا", "नमस्ते", "ภาษา", "日本語", "中文", "かな", "カナ", "한국어", "e\u0301", "A\u030a", "e\u0323\u0302", "\u1100\u1161\u11a8",
         "ﬁ", "½", "٣٤", "Ⅷ", "👍", "👨‍👩‍👧", "🇩🇪", "<|end|>", "<s>", "<think>", "[INST]", "a" * 70, "\u0000"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", " \n", "\u00a0", "\u2028", "\u2029", "\u3000", "\u0085", "\u200b",
          "\v", "\f", "\u180e", "\ufeff", SPACE]
MARKS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["…", "—", "«", "。", "、", "「", "€", "™"]


def any_character(r):
    """A character that has been in Unicode for long: libraries differ about recent ones."""
    while True:
        c = chr(r.choice([r.randrange(0x20, 0x7F), r.randrange(0x250), r.randrange(0x800), r.randrange(0x3000, 0xA000),
                          r.randrange(0x1F300, 0x1F580)]))
        if ord(c) >= 0x1F300 or unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs", "Co"):
            return c


def make_cases():
    r = random.Random(1)
    cases = ["", " ", "  ", "a", " a", "a ", "\n", "hello world", "'s", "1234567890" * 4, "a" * 200, " " * 70]
    while len(cases) < CASES:
        parts = []
        for _ in range(r.randrange(1, 7)):
            kind = r.random()
            if kind < 0.35:
                parts.append(r.choice(WORDS))
            elif kind < 0.6:
                parts.append(r.choice(SPACES) * r.choice([1, 1, 1, 2, 3]))
            elif kind < 0.72:
                parts.append("".join(r.choice("0123456789") for _ in range(r.randrange(1, 41))))
            elif kind < 0.84:
                parts.append(r.choice(MARKS) * r.choice([1, 1, 2, 3]))
            else:
                parts.append("".join(any_character(r) for _ in range(r.randrange(1, 6))))
        cases.append("".join(parts))
    return cases


GPT4 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}%s| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
DEEPSEEK = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]


def split(*expressions):
    steps = [pre_tokenizers.Split(Regex(e), "isolated") for e in expressions]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre, alphabet=True, normalizer=None, specials=("<s>", "<|end|>"), begin=None, whole_words=False):
    t = Tokenizer(models.BPE(ignore_merges=whole_words))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=600, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()) if alphabet else []))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    t.add_tokens([AddedToken("<think>", normalized=False)])
    if begin:
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A $B",
                                          special_tokens=[(begin, t.token_to_id(begin))])])
    return t


def every_split(t):
    """As converters of SentencePiece models write merges: every pair of tokens whose joined text is a token, in the
    order of the tokens made. So the same vocabulary with scores gives the same ids."""
    rank = {token: i for i, token in enumerate(t["model"]["vocab"])}
    merges = []
    for token in t["model"]["vocab"]:
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in rank and token[i:] in rank]
        merges += sorted(pairs, key=lambda p: (rank[p[0]], rank[p[1]]))
    t["model"]["merges"] = [list(p) for p in merges]


def sentencepiece(normalizer, pre, decoder, users=()):
    fixed = ["<unk>", "<s>", "</s>"]
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    t.train_from_iterator([w for line in CORPUS for w in line.split()], trainers.BpeTrainer(
        vocab_size=420, show_progress=False, limit_alphabet=150, initial_alphabet=[SPACE, "\n"]))
    trained = [token for token, _ in sorted(t.get_vocab().items(), key=lambda item: item[1])]
    tokens = fixed + [f"<0x{b:02X}>" for b in range(256)] + trained
    d = json.loads(t.to_str())
    d["model"].update(vocab={token: i for i, token in enumerate(tokens)}, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    every_split(d)
    d["added_tokens"] = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, s in enumerate(fixed)]
    t = Tokenizer.from_str(json.dumps(d))
    t.add_tokens([AddedToken(u, normalized=False) for u in users])
    t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def make_tokenizers():
    fallback = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return {
        "smollm": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]),
                             alphabet=False),
        "gpt-2": byte_level(pre_tokenizers.ByteLevel(False)),
        "llama-bpe": byte_level(split(GPT4 % "{1,3}"), begin="<s>", whole_words=True),
        "qwen2": byte_level(split(GPT4 % ""), normalizer=normalizers.NFC()),
        "deepseek-v3": byte_level(split(*DEEPSEEK), normalizer=normalizers.Sequence([])),
        "spm-llama": sentencepiece(normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), None,
                                   decoders.Sequence(fallback + [decoders.Strip(" ", 1, 0)])),
        "spm-gemma": sentencepiece(normalizers.Replace(" ", SPACE), pre_tokenizers.Split(" ", "merged_with_previous"),
                                   decoders.Sequence(fallback), users=["\n\n", "\n\n\n", "<h1>"]),
        "spm-first": sentencepiece(None, pre_tokenizers.Metaspace(SPACE, "first", split=False),
                                   decoders.Sequence(fallback + [decoders.Strip(" ", 1, 0)])),
    }


def write_ids(name, path, cases):
    t = Tokenizer.from_file(str(path))
    lines = [" ".join(map(str, t.encode(c, add_special_tokens=False).ids)) for c in cases]
    (OUT / f"{name}.ids").write_text("\n".join(lines) + "\n")
    print(f"{name}: {t.get_vocab_size()} tokens, {sum(len(line.split()) for line in lines)} ids")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    cases = make_cases()
    (OUT / "cases.json").write_text(json.dumps(cases, indent=0) + "\n")
    for name, t in make_tokenizers().items():
        d = json.loads(t.to_str())
        (OUT / f"{name}.json").write_text(json.dumps(d, ensure_ascii=False, separators=(",", ":")) + "\n")
        write_ids(name, OUT / f"{name}.json", cases)
    write_ids("nano", TOP / "models" / "nano" / "tokenizer.json", cases)


if __name__ == "__main__":
    main()
