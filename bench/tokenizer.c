/* tokenizer.c: how long a model's tokenizer takes to load, and how fast it encodes.
 *
 *   bench_tokenizer MODEL [FILE]     (a GGUF file or a Hugging Face folder; FILE: the text, else some prose and code)
 *       load: milliseconds of processor time. encode: tokens and megabytes per second, for texts of 1 KiB and 256 KiB.
 *
 * Time is the thread's own processor time; figures are medians over rounds, with the best beside them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "text/tokenizer.h"

enum { ROUNDS = 15, FILE_LIMIT = 1 << 26 };

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int quit(const foray_error *err)
{
    fprintf(stderr, "bench_tokenizer: %s\n", err->text);
    return 1;
}

static int bench_load(const model_file *f, foray_error *err)
{
    double ms[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        tokenizer *t = NULL;
        double start = cpu_ms();
        int rc = tokenizer_load(f, &t, err);
        if (rc != 0)
            return rc;
        ms[i] = cpu_ms() - start;
        if (i == 0)
            printf("%s, %d tokens\n", tokenizer_kind(t), tokenizer_vocab(t));
        tokenizer_free(t);
    }
    qsort(ms, ROUNDS, sizeof ms[0], by_size);
    printf("load            %8.1f ms     (best %.1f)\n", ms[ROUNDS / 2], ms[0]);
    return 0;
}

static int bench_encode(const tokenizer *t, const char *text, size_t bytes, const char *name,
                        foray_error *err)
{
    double ms[ROUNDS];
    size_t tokens = 0;
    for (int i = 0; i < ROUNDS; i++) {
        id_list l = { 0 };
        double start = cpu_ms();
        int rc = tokenizer_encode(t, text, bytes, true, true, &l, err);
        if (rc != 0)
            return rc;
        ms[i] = cpu_ms() - start;
        tokens = l.count;
        id_list_free(&l);
    }
    qsort(ms, ROUNDS, sizeof ms[0], by_size);
    printf("encode %-8s %8.2f Mtok/s (best %.2f), %.1f MB/s, %zu tokens\n", name,
           1e-3 * (double)tokens / ms[ROUNDS / 2], 1e-3 * (double)tokens / ms[0],
           1e-3 * (double)bytes / ms[ROUNDS / 2], tokens);
    return 0;
}

int main(int argc, char **argv)
{
    static const char sample[] =
        "The drafter rides ahead and proposes tokens; the model verifies them in one pass.\n"
        "    for (int i = 0; i < count; i++)\n        total += price[i] * 1.25; // naïve\n";
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: bench_tokenizer MODEL [FILE]\n");
        return 2;
    }
    foray_error err;
    char *data = NULL;
    size_t bytes = 0;
    if (argc == 3 && file_read(argv[2], FILE_LIMIT, &data, &bytes, &err) != 0)
        return quit(&err);
    enum { LARGE = 256 << 10, SMALL = 1 << 10 };
    const char *source = data != NULL && bytes != 0 ? data : sample;
    size_t length = data != NULL && bytes != 0 ? bytes : sizeof sample - 1;
    char *text = mem_alloc(MEM_GENERAL, LARGE);
    model_file *f = NULL;
    tokenizer *t = NULL;
    if (text == NULL || model_file_open(argv[1], &f, &err) != 0 || bench_load(f, &err) != 0 ||
        tokenizer_load(f, &t, &err) != 0)
        return quit(&err);
    for (size_t i = 0; i < LARGE; i++)
        text[i] = source[i % length];
    if (bench_encode(t, text, SMALL, "1 KiB", &err) != 0 ||
        bench_encode(t, text, LARGE, "256 KiB", &err) != 0)
        return quit(&err);
    tokenizer_free(t);
    model_file_close(f);
    mem_free(MEM_GENERAL, text, LARGE);
    if (data != NULL)
        mem_free(MEM_GENERAL, data, bytes + 1);
    return 0;
}
