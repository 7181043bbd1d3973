/* bench_prompts.c: the prompts of `foray bench`'s speculation rows, written for foray. See bench_prompts.h. */
#include "cli/bench_prompts.h"

const bench_prompt BENCH_PROMPTS[] = {
    { "edit-1", "edit",
      "Write this file again without any change, but rename the variable `item` to `line`:\n"
      "\n"
      "def total_price(items, tax):\n"
      "    total = 0\n"
      "    for item in items:\n"
      "        total = total + item[\"price\"] * item[\"count\"]\n"
      "    total = total + total * tax\n"
      "    return total\n"
      "\n"
      "def cheapest(items):\n"
      "    best = items[0]\n"
      "    for item in items:\n"
      "        if item[\"price\"] < best[\"price\"]:\n"
      "            best = item\n"
      "    return best\n" },
    { "edit-2", "edit",
      "Repeat this configuration exactly, but set every port to 9000:\n"
      "\n"
      "server:\n"
      "  host: 127.0.0.1\n"
      "  port: 8080\n"
      "  workers: 4\n"
      "  timeout: 30\n"
      "database:\n"
      "  host: 127.0.0.1\n"
      "  port: 5432\n"
      "  name: orders\n"
      "  pool: 10\n"
      "cache:\n"
      "  host: 127.0.0.1\n"
      "  port: 6379\n"
      "  ttl: 600\n" },
    { "edit-3", "edit",
      "Copy this table and replace the city Porto by Coimbra:\n"
      "\n"
      "name,department,city,start\n"
      "Alba,Sales,Porto,2019\n"
      "Bruno,Support,Porto,2021\n"
      "Carla,Sales,Braga,2018\n"
      "Duarte,Research,Lisbon,2020\n"
      "Elsa,Support,Lisbon,2022\n"
      "Fausto,Research,Braga,2017\n" },
    { "edit-4", "edit",
      "Copy this letter word for word and change the name to Ms Lindqvist:\n"
      "\n"
      "Dear Mr Holm,\n"
      "\n"
      "thank you for your order of 14 May. The two oak shelves left our workshop on Monday and "
      "should reach you within five working days. The matching table is delayed because the "
      "oak for its top failed our inspection. We expect to send it in the second week of June "
      "and will not charge you for its delivery.\n"
      "\n"
      "Yours sincerely,\n"
      "the workshop\n" },
    { "edit-5", "edit",
      "Repeat this C file exactly, with `n` renamed to `count`:\n"
      "\n"
      "int sum(const int *v, int n) {\n"
      "    int s = 0;\n"
      "    for (int i = 0; i < n; i++) {\n"
      "        s += v[i];\n"
      "    }\n"
      "    return s;\n"
      "}\n"
      "\n"
      "int max(const int *v, int n) {\n"
      "    int m = v[0];\n"
      "    for (int i = 1; i < n; i++) {\n"
      "        if (v[i] > m) m = v[i];\n"
      "    }\n"
      "    return m;\n"
      "}\n" },
    { "prose-1", "prose", "Tell the story of a clockmaker who repairs a clock that runs backwards." },
    { "prose-2", "prose",
      "Describe an early morning at a small fishing harbour, with its sounds and smells." },
    { "prose-3", "prose",
      "Write the first page of a story that begins with a letter delivered to the wrong house." },
    { "prose-4", "prose", "Explain in plain words why bread dough rises, for someone who has never baked." },
    { "prose-5", "prose",
      "Tell what happens when two neighbours discover that their gardens share an old well." },
    { "list-1", "list", "List twelve common kitchen tools, each with one sentence on its use." },
    { "list-2", "list", "List the months of the year with the number of days in each." },
    { "list-3", "list", "Give ten tips for someone who moves to a new city, as a numbered list." },
    { "list-4", "list", "List eight animals of the forest and what each of them eats." },
    { "list-5", "list", "Make a packing list for a weekend by the sea, grouped by clothes, food and tools." },
    { "code-1", "code",
      "Write a Python function that checks whether a string is a palindrome, with a docstring "
      "and three tests." },
    { "code-2", "code",
      "Write a C function that reverses a singly linked list and a short main that shows it." },
    { "code-3", "code", "Write an SQL schema for a library with books, members and loans." },
    { "code-4", "code",
      "Write a shell script that renames all .jpeg files in a folder to .jpg and reports how "
      "many it changed." },
    { "code-5", "code",
      "Write a JavaScript function that groups an array of objects by a key, with an example." },
};
const int BENCH_PROMPT_COUNT = sizeof BENCH_PROMPTS / sizeof *BENCH_PROMPTS;
