#!/usr/bin/env python3
"""Makes tests/golden/chat/cases.json: what chat templates write for a set of conversations.

    python3 tools/make_chat_vectors.py        (needs the Python package jinja2)

The templates beside it (*.jinja) write what those of the named model families write for system, user and assistant
turns; they are foray's own text. They are run as transformers runs templates. A conversation that a template
refuses is null.
"""
import json
import pathlib

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "chat"

TOKENS = {"llama3": ("<|begin_of_text|>", "<|eot_id|>"), "gemma": ("<bos>", "<eos>"),
          "deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")}

S, U, A = "system", "user", "assistant"
CONVERSATIONS = [
    [(U, "Hello")],
    [(S, "Be brief."), (U, "Hello")],
    [(U, "Hello"), (A, "Hi there."), (U, "And now?")],
    [(S, "Be brief."), (U, "Hello"), (A, "Hi there."), (U, "And now?")],
    [(S, "  spaced \n"), (U, "\n\n  lead and trail \n "), (A, " \tanswer\n\n"), (U, "\nlast\n")],
    [(S, ""), (U, "")],
    [(U, "")],
    [(U, "   ")],
    [(S, "sys"), (U, " \n ")],
    [(U, "漢字 naïve 👍"), (A, "\u2003wide\u3000"), (U, "12345")],
    [(U, "a"), (A, "<think>\nsome thought\n</think>\n\nthe answer"), (U, "b")],
    [(U, "a"), (A, "no tags </think> here"), (U, "b"), (A, ""), (U, "c")],
    [(U, "q"), (A, "<think>\nr\n</think>\n\nfinal")],
    [(U, "q"), (A, "plain")],
    [(U, "q"), (A, "one"), (U, "<tool_response>\n4\n</tool_response>"), (A, "<think>x</think>two"), (U, "<tool_response></tool_response>")],
    [(U, "one"), (U, "two")],
    [(A, "I begin"), (U, "ok")],
    [(U, "hi"), (S, "late"), (U, "go")],
    [(S, "first"), (S, "second"), (U, "go")],
]


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.globals["raise_exception"] = refuse
    return env


def render(env, name, text, conversation):
    begin, end = next((v for k, v in TOKENS.items() if name.startswith(k)), ("<s>", "</s>"))
    messages = [{"role": role, "content": content} for role, content in conversation]
    try:
        return env.from_string(text).render(messages=messages, add_generation_prompt=True, bos_token=begin, eos_token=end)
    except jinja2.exceptions.TemplateError:
        return None


def main():
    env, written = environment(), {}
    for path in sorted(HERE.glob("*.jinja")):
        name = path.name.removesuffix(".jinja")
        written[name] = [render(env, name, path.read_text(), c) for c in CONVERSATIONS]
    cases = {"conversations": CONVERSATIONS, "written": written}
    (HERE / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    print(f"{len(written)} templates, {len(CONVERSATIONS)} conversations")


if __name__ == "__main__":
    main()
