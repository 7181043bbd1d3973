/* work.c: numbers out of the labels of steps; see work.h. */
#include "timeline/work.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The number behind a mark; -1. */
static int64_t number_behind(const char *text, const char *mark)
{
    const char *p = strstr(text, mark);
    if (p == NULL || p[strlen(mark)] < '0' || p[strlen(mark)] > '9')
        return -1;
    long long n = strtoll(p + strlen(mark), NULL, 10);
    return n < INT_MAX * 1024ll ? n : -1;
}

static void add(int64_t *sum, int64_t more)
{
    if (more >= 0)
        *sum = (*sum < 0 ? 0 : *sum) + more;
}

/* One part of vLLM's label, behind its name: 32(32), or 32(sq32sk32785sqsq32sqsk32785). */
static void add_part(const char *label, const char *name, int64_t *rows, int64_t *keys)
{
    const char *p = strstr(label, name);
    p = p != NULL ? strchr(p, '(') : NULL;
    if (p == NULL)
        return;
    if (p[1] != 's') {
        add(rows, number_behind(p, "("));
        return;
    }
    add(rows, number_behind(p, "(sq"));
    add(keys, number_behind(p, "sk")); /* the first sk is the sum; sqsk comes later */
}

step_work work_of_label(const char *label)
{
    int64_t requests = number_behind(label, "bs="), rows = -1, keys = -1;
    if (requests >= 0) {
        add(&rows, number_behind(label, " g_sq="));
        add(&rows, number_behind(label, " c_sq="));
        add(&keys, number_behind(label, " g_sk="));
        add(&keys, number_behind(label, " c_sk="));
        if (rows < 0)
            rows = number_behind(label, "toks=");
    } else {
        requests = number_behind(label, "_generation_");
        add_part(label, "context_", &rows, &keys);
        add_part(label, "_generation_", &rows, &keys);
        if (requests < 0)
            rows = keys = -1;
    }
    return (step_work) { .requests = requests <= INT_MAX ? (int)requests : -1,
                         .rows = rows <= INT_MAX ? (int)rows : -1,
                         .keys = keys };
}
