/* list.h: the lists of numbers in the arguments of bench programs: "1,2,4,8". Pure. Threads: any.
 */
#ifndef FORAY_BENCH_LIST_H
#define FORAY_BENCH_LIST_H

#include <stdlib.h>

/* Numbers of 1 to high, separated by commas, the first `room` of them: out[room]. Returns how many; 0: one is no such
 * number. */
static inline int list_parse(const char *text, int high, int *out, int room)
{
    int count = 0;
    for (const char *p = text; *p && count < room; p += *p == ',') {
        char *end;
        const long n = strtol(p, &end, 10);
        if (end == p || n < 1 || n > high)
            return 0;
        out[count++] = (int)n;
        p = end;
    }
    return count;
}

#endif
