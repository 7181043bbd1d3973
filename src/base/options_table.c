/* options_table.c: every option, once: what it may be and what help says of it.
 *
 * An option appears here when its feature exists, and not before. To add one: a name in option_id
 * (options.h), a row here, and the code that reads it; help, docs and the checks follow.
 */
#include "base/options_table.h"

#include <limits.h>

enum {
    RUN = 1 << COMMAND_RUN,
    SCORE = 1 << COMMAND_SCORE,
    BENCH = 1 << COMMAND_BENCH,
    INSPECT = 1 << COMMAND_INSPECT,
    EVERY = (1 << COMMAND_COUNT) - 1,
    ENGINE = RUN | SCORE | BENCH, /* commands that open a model */
};

const char *const option_sections[SECTION_COUNT] = {
    "Model", "Text", "Sampling", "Speculation", "Measurement", "Machine", "Output",
};

enum { TOKENS_MAX = 16777216 }; /* of a context: more than any model has */

const option_row option_rows[OPT_COUNT] = {
    [OPT_MODEL] = { "model", "m", KIND_STRING, SECTION_MODEL, ENGINE, .argument = "MODEL",
                    .help = "a GGUF file, a Hugging Face folder, or a known name" },
    [OPT_CHAT_TEMPLATE] = { "chat-template", NULL, KIND_STRING, SECTION_MODEL, RUN, .argument = "NAME",
                            .help = "chat format to use instead of the one recognised in the model" },
    [OPT_THINKING] = { "thinking", NULL, KIND_CHOICE, SECTION_MODEL, RUN, .argument = "MODE",
                       .choices = "auto|on|off", .word = "auto", .fallback = "auto",
                       .help = "whether replies open with reasoning; auto: the chat format's own way" },
    [OPT_ACT_QUANT] = { "act-quant", NULL, KIND_CHOICE, SECTION_MODEL, ENGINE, .argument = "MODE",
                        .choices = "model|off", .word = "model", .fallback = "model",
                        .help =
                            "round activations as a quantised checkpoint was trained for, or not at all" },
    [OPT_PROMPT] = { "prompt", "p", KIND_STRING, SECTION_TEXT, RUN, .argument = "TEXT",
                     .help = "what to answer or continue; without it a terminal becomes a chat" },
    [OPT_FILE] = { "file", "f", KIND_STRING, SECTION_TEXT, RUN | SCORE, .argument = "FILE",
                   .help = "read the text from a file" },
    [OPT_SYSTEM] = { "system", NULL, KIND_STRING, SECTION_TEXT, RUN, .argument = "TEXT",
                     .help = "system message of the conversation" },
    [OPT_RAW] = { "raw", NULL, KIND_FLAG, SECTION_TEXT, RUN,
                  .help = "continue the text as it is, without chat format" },
    [OPT_MAX_TOKENS] = { "max-tokens", "n", KIND_INT, SECTION_TEXT, RUN, .argument = "N", .low = 1,
                         .high = INT_MAX, .word = "end", .fallback = "end",
                         .help = "most tokens to generate; end: until the end of text or of the context" },
    [OPT_IGNORE_EOS] = { "ignore-eos", NULL, KIND_FLAG, SECTION_TEXT, RUN,
                         .help = "go on after the end of text" },
    [OPT_STOP] = { "stop", NULL, KIND_STRINGS, SECTION_TEXT, RUN, .argument = "TEXT",
                   .help = "end before this text; may be given several times" },
    [OPT_TEMP] = { "temp", NULL, KIND_FLOAT, SECTION_SAMPLING, RUN, .argument = "T", .low = 0, .high = 100,
                   .word = "model", .fallback = "model", .help = "temperature; 0 is greedy" },
    [OPT_TOP_K] = { "top-k", NULL, KIND_INT, SECTION_SAMPLING, RUN, .argument = "K", .low = 0,
                    .high = INT_MAX, .word = "model", .fallback = "model",
                    .help = "keep the K likeliest tokens; 0 is off" },
    [OPT_TOP_P] = { "top-p", NULL, KIND_FLOAT, SECTION_SAMPLING, RUN, .argument = "P", .low = 0, .high = 1,
                    .word = "model", .fallback = "model",
                    .help = "keep the likeliest tokens that sum to P; 1 is off" },
    [OPT_MIN_P] = { "min-p", NULL, KIND_FLOAT, SECTION_SAMPLING, RUN, .argument = "P", .low = 0, .high = 1,
                    .word = "model", .fallback = "model",
                    .help = "keep tokens at least P times as likely as the likeliest; 0 is off" },
    [OPT_REPEAT_PENALTY] = { "repeat-penalty", NULL, KIND_FLOAT, SECTION_SAMPLING, RUN, .argument = "X",
                             .low = 0.01, .high = 100, .word = "model", .fallback = "model",
                             .help = "divide the score of tokens that occurred; 1 is off" },
    [OPT_PRESENCE_PENALTY] = { "presence-penalty", NULL, KIND_FLOAT, SECTION_SAMPLING, RUN, .argument = "X",
                               .low = -100, .high = 100, .fallback = "0",
                               .help = "subtract from the score of tokens that were generated" },
    [OPT_FREQUENCY_PENALTY] = { "frequency-penalty", NULL, KIND_FLOAT, SECTION_SAMPLING, RUN, .argument = "X",
                                .low = -100, .high = 100, .fallback = "0",
                                .help = "subtract that much for each time a token was generated" },
    [OPT_SEED] = { "seed", "s", KIND_SEED, SECTION_SAMPLING, RUN, .argument = "N", .word = "random",
                   .fallback = "random", .help = "seed of the request; a random one is reported" },
    [OPT_SPEC] = { "spec", NULL, KIND_CHOICE, SECTION_SPEC, RUN | BENCH | INSPECT, .argument = "DRAFTER",
                   .choices = "auto|off|ngram|nextn", .fallback = "auto",
                   .help =
                       "who proposes tokens: ngram searches the text so far; auto: the best for the model" },
    [OPT_SPEC_TOKENS] = { "spec-tokens", NULL, KIND_INT, SECTION_SPEC, RUN | BENCH | INSPECT, .argument = "K",
                          .low = 1, .high = 15, .word = "auto", .fallback = "auto",
                          .help = "most tokens to propose in a round; auto: the drafter's own" },
    [OPT_SPEC_BUDGET] = { "spec-budget", NULL, KIND_INT, SECTION_SPEC, RUN | BENCH, .argument = "N", .low = 1,
                          .high = 15, .word = "auto", .fallback = "auto",
                          .help = "proposed tokens to verify in a step; auto: by measured cost, also none" },
    [OPT_IDS] = { "ids", NULL, KIND_INTS, SECTION_TEXT, SCORE, .argument = "1,2,…", .low = 0, .high = INT_MAX,
                  .help = "score these token ids instead of a text" },
    [OPT_LOGITS] = { "logits", NULL, KIND_STRING, SECTION_OUTPUT, SCORE, .argument = "FILE",
                     .help = "write logits: little-endian float32, rows x vocabulary" },
    [OPT_LOGITS_ROWS] = { "logits-rows", NULL, KIND_CHOICE, SECTION_OUTPUT, SCORE, .argument = "WHICH",
                          .choices = "last|all", .fallback = "last",
                          .help = "which rows of logits to write" },
    [OPT_CHUNK] = { "chunk", NULL, KIND_INT, SECTION_MEASURE, SCORE, .argument = "N", .low = 1, .high = 65536,
                    .word = "auto", .fallback = "auto", .help = "rows per pass" },
    [OPT_STRIDE] = { "stride", NULL, KIND_INT, SECTION_MEASURE, SCORE, .argument = "N", .low = 1,
                     .high = TOKENS_MAX, .word = "context", .fallback = "context",
                     .help = "tokens from one window's start to the next" },
    [OPT_N_PROMPT] = { "n-prompt", "p", KIND_INTS, SECTION_MEASURE, BENCH, .argument = "N,…", .low = 0,
                       .high = TOKENS_MAX, .fallback = "512", .help = "prompt lengths to measure; 0: none" },
    [OPT_N_GEN] = { "n-gen", "n", KIND_INTS, SECTION_MEASURE, BENCH, .argument = "N,…", .low = 0,
                    .high = TOKENS_MAX, .fallback = "128", .help = "numbers of tokens to generate; 0: none" },
    [OPT_PG] = { "pg", "pg", KIND_INTS, SECTION_MEASURE, BENCH, .argument = "P,N", .low = 0,
                 .high = TOKENS_MAX, .group = 2,
                 .help = "a prompt of P and then N tokens; may be given several times" },
    [OPT_N_DEPTH] = { "n-depth", "d", KIND_INTS, SECTION_MEASURE, BENCH, .argument = "N,…", .low = 0,
                      .high = TOKENS_MAX, .fallback = "0", .help = "tokens already in the context" },
    [OPT_REPS] = { "reps", "r", KIND_INT, SECTION_MEASURE, BENCH, .argument = "N", .low = 1, .high = 100000,
                   .fallback = "5", .help = "repetitions of each test" },
    [OPT_ROWS] = { "rows", NULL, KIND_INTS, SECTION_MEASURE, BENCH, .argument = "N,…", .low = 1, .high = 16,
                   .help = "rows of a verify pass to measure, such as 1,2,4,8" },
    [OPT_REQUESTS] = { "requests", NULL, KIND_INT, SECTION_MEASURE, BENCH, .argument = "N", .low = 1,
                       .high = 64, .fallback = "1", .help = "requests in one step" },
    [OPT_ROOFLINE] = { "roofline", NULL, KIND_FLAG, SECTION_MEASURE, BENCH,
                       .help = "each kernel's time against the machine's peaks" },
    [OPT_CONTEXT] = { "context", "c", KIND_INT, SECTION_MACHINE, ENGINE | INSPECT, .argument = "N", .low = 1,
                      .high = TOKENS_MAX, .word = "model", .fallback = "model",
                      .help = "tokens of context; model: the model's own, bounded by memory" },
    [OPT_THREADS] = { "threads", "t", KIND_INT, SECTION_MACHINE, ENGINE | INSPECT, .argument = "N", .low = 1,
                      .high = 64, .word = "auto", .fallback = "auto", .help = "threads; auto: one per core" },
    [OPT_ISA] = { "isa", NULL, KIND_CHOICE, SECTION_MACHINE, ENGINE | INSPECT, .argument = "SET",
                  .choices = "auto|portable|avx2|avx512", .word = "auto", .fallback = "auto",
                  .help = "instruction set; auto: the best that the machine has" },
    [OPT_GRAPH] = { "graph", NULL, KIND_CHOICE, SECTION_MACHINE, ENGINE, .argument = "WHEN",
                    .choices = "auto|off", .fallback = "auto",
                    .help = "replay captured graphs, or launch every kernel by itself" },
    [OPT_INSPECT_GRAPH] = { "graph", NULL, KIND_FLAG, SECTION_OUTPUT, INSPECT, .no_twin = true,
                            .help = "capture the graphs and print nodes, streams and events as JSON" },
    [OPT_STEPS] = { "steps", NULL, KIND_STRING, SECTION_OUTPUT, RUN, .argument = "FILE",
                    .help = "write one JSON line per step" },
    [OPT_TIMELINE] = { "timeline", NULL, KIND_STRING, SECTION_OUTPUT, RUN, .argument = "FILE",
                       .help = "write the tasks as a Chrome/Perfetto trace" },
    [OPT_JSON] = { "json", NULL, KIND_FLAG, SECTION_OUTPUT, RUN | INSPECT, .help = "print one JSON object" },
    [OPT_OUTPUT] = { "output", "o", KIND_CHOICE, SECTION_OUTPUT, BENCH, .argument = "FORM",
                     .choices = "md|csv|json|jsonl", .fallback = "md", .help = "form of the results" },
    [OPT_QUIET] = { "quiet", "q", KIND_FLAG, SECTION_OUTPUT, EVERY, .help = "no progress, no account" },
    [OPT_VERBOSE] = { "verbose", "v", KIND_FLAG, SECTION_OUTPUT, EVERY, .help = "say more on stderr" },
    [OPT_HELP] = { "help", "h", KIND_FLAG, SECTION_OUTPUT, EVERY, .no_twin = true,
                   .help = "print this text" },
};

const option_command option_commands[COMMAND_COUNT] = {
    [COMMAND_RUN] = { "run", "[-m MODEL] [-p TEXT | -f FILE]", "generates text", 0, 0 },
    [COMMAND_SCORE] = { "score", "-m MODEL (-f FILE | --ids 1,2,…)",
                        "measures how likely a model finds a text", 0, 0 },
    [COMMAND_BENCH] = { "bench", "-m MODEL", "measures speed, with medians and spread", 0, 0 },
    [COMMAND_INSPECT] = { "inspect", "FILE", "shows config, tensors, tokenizer and memory plan of a model", 1,
                          1 },
    [COMMAND_MODEL] = { "model", "[NAME]", "lists the known models, or obtains one", 1, 0 },
};

bool options_table_takes(command c, int id)
{
    return (option_rows[id].commands >> c & 1) != 0;
}
