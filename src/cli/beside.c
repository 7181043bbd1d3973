/* beside.c: where the binary stands is read from /proc/self/exe, so that links to it and PATH do not matter. */
#include "cli/beside.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int beside_find(const char *name, buf *path, foray_error *err)
{
    static const char *const places[] = { "../share/foray", "../.." };
    char program[PATH_MAX], found[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return fail(err, FORAY_ESYSTEM, "/proc/self/exe: %s", strerror(errno));
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = 0;
    buf place = { 0 };
    bool there = false;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !there; i++) {
        buf_clear(&place);
        buf_printf(&place, "%s/%s/%s", program, places[i], name);
        there = !place.failed && realpath(place.data, found);
    }
    buf_free(&place);
    if (!there)
        return fail(err, FORAY_EFILE, "%s: not beside %s (it belongs in ../share/foray)", name, program);
    buf_puts(path, found);
    return path->failed ? fail(err, FORAY_ENOMEM, "%s: out of memory", name) : 0;
}
