/* deepseek4.c: random DeepSeek-V4 type models of real proportions, and what a long context costs them.
 *
 *   bench_deepseek4 write 1b|pair FOLDER    writes a model in FP8 with FP4 experts: `1b` has 8 experts and about a billion
 *       weights, for `foray bench -m FOLDER`; `pair` one layer of ratio 4 and one of ratio 128 with V4-Flash's widths
 *   bench_deepseek4 context FOLDER [LENGTH,…] [REPEATS]    plain steps at contexts of these lengths (1024,32768), in turn:
 *       medians, spread, the ratio to the first, and the bytes that a token of context keeps
 *
 * `context` fills the cache with random entries instead of reading a prompt (engine_time_depths). Speed does not depend on
 * the weights' values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "engine/score.h"
#include "foray.h"
#include "list.h"
#include "measure/compare.h"
#include "support/tiny_v4.h"

enum { MOST_LENGTHS = 8, MOST_REPEATS = 1000 };

static void write_model(const char *kind, const char *folder)
{
    tiny_v4_spec s = tiny_v4_default();
    s.no_text = true;
    s.drafter = DEEPSEEK4_NO_DRAFTER;
    s.hash_layers = 0;
    s.yarn = false;
    s.vocab = 1024;
    s.window = 128;
    s.swiglu_limit = 10;
    if (strcmp(kind, "1b") == 0) {
        s.layers = 8;
        s.dim = 2048;
        s.context = 4096;
        s.heads = 16;
        s.head_dim = 256;
        s.rope_dim = 64;
        s.q_rank = 512;
        s.groups = 4;
        s.o_rank = 512;
        s.index_heads = 16;
        s.index_dim = 128;
        s.index_top = 256;
        s.experts = 8;
        s.chosen = 2;
        s.ffn = 2560;
        for (int i = 0; i < s.layers; i++)
            s.ratio[i] = i == 0 ? 0 : i % 2 ? 4 : 128;
    } else {
        s.layers = 2;
        s.dim = 4096;
        s.context = 1 << 16;
        s.heads = 64;
        s.head_dim = 512;
        s.rope_dim = 64;
        s.q_rank = 1024;
        s.groups = 8;
        s.o_rank = 1024;
        s.index_heads = 64;
        s.index_dim = 128;
        s.index_top = 512;
        s.experts = 8;
        s.chosen = 6;
        s.ffn = 2048;
        s.ratio[0] = 4;
        s.ratio[1] = 128;
    }
    tiny_v4_write(&s, TINY_V4_QUANT, folder);
}

static void fail_with(const foray_error *err)
{
    fprintf(stderr, "bench_deepseek4: %s\n", err->text);
    exit(1);
}

static void measure_context(const char *folder, const int *length, int count, int repeats)
{
    static double ms[MOST_LENGTHS][MOST_REPEATS];
    foray_config config = { .model = folder, .spec = "off" };
    foray_engine *e;
    foray_error err;
    for (int i = 0; i < count; i++)
        config.context = length[i] + 1 > config.context ? length[i] + 1 : config.context;
    if (foray_open(&config, &e, &err) != 0)
        fail_with(&err);
    if (engine_time_depths(e, length, count, repeats, &ms[0][0], MOST_REPEATS, &err) != 0)
        fail_with(&err);
    printf(
        "| context | ms a step: median (quartiles) | to the first | bytes of cache |\n|---|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        compare_summary s = compare_summarise(ms[i], repeats);
        compare_ratio r = compare_pairs(ms[i], ms[0], repeats);
        printf("| %d | %.3f (%.3f – %.3f) | %.3f (%.3f – %.3f) | %.0f |\n", length[i], s.median / 1e6,
               s.low / 1e6, s.high / 1e6, r.ratio, r.low, r.high,
               (double)cache_bytes_for(engine_cache(e), length[i]));
    }
    foray_close(e);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "write") == 0 &&
        (strcmp(argv[2], "1b") == 0 || strcmp(argv[2], "pair") == 0)) {
        write_model(argv[2], argv[3]);
        return 0;
    }
    if (argc < 3 || argc > 5 || strcmp(argv[1], "context") != 0) {
        fprintf(stderr,
                "usage: bench_deepseek4 write 1b|pair FOLDER | context FOLDER [LENGTH,…] [REPEATS]\n");
        return 2;
    }
    int length[MOST_LENGTHS], repeats = argc > 4 ? atoi(argv[4]) : 21;
    int count = list_parse(argc > 3 ? argv[3] : "1024,32768", MODEL_MAX_CONTEXT, length, MOST_LENGTHS);
    if (count == 0) {
        fprintf(stderr, "%s: no list of lengths from 1 to %d\n", argv[3], MODEL_MAX_CONTEXT);
        return 2;
    }
    measure_context(argv[2], length, count, repeats < 1 || repeats > MOST_REPEATS ? 21 : repeats);
    return 0;
}
