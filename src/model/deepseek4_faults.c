/* deepseek4_faults.c: an error holds one line of limited length. What does not fit is counted, so that the end of the
 * line, with the number and the remedy, is always there. Threads: one at a time per list.
 */
#include "model/deepseek4_faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 384 }; /* of foray_error's text; the rest is for the path, the number and the remedy */

/* Appends text where all of it fits. */
static bool append(char *line, size_t room, const char *separator, const char *text)
{
    size_t used = strlen(line), between = strlen(separator), bytes = strlen(text);
    if (used + between + bytes >= room)
        return false;
    memcpy(line + used, separator, between);
    memcpy(line + used + between, text, bytes + 1);
    return true;
}

void faults_missing(fault_list *l, const char *name)
{
    if (l->missing_shown == l->missing_count &&
        append(l->missing, sizeof l->missing, l->missing_count > 0 ? ", " : "", name))
        l->missing_shown++;
    l->missing_count++;
}

void faults_wrong(fault_list *l, int code, const char *format, ...)
{
    va_list args;
    if (l->wrong_count < FAULTS_KEPT) {
        va_start(args, format);
        vsnprintf(l->wrong[l->wrong_count], FAULT_BYTES, format, args);
        va_end(args);
    }
    l->wrong_count++;
    l->unsupported += code == FORAY_EUNSUPPORTED;
}

int faults_report(const fault_list *l, const char *path, const char *what, const char *remedy,
                  foray_error *err)
{
    char line[LINE_BYTES] = "", more[40] = "";
    int count = l->missing_count + l->wrong_count, shown = l->missing_shown;
    if (count == 0)
        return 0;
    if (shown > 0) {
        append(line, sizeof line, "missing ", l->missing);
        if (l->missing_count > shown)
            snprintf(line + strlen(line), sizeof line - strlen(line), ", and %d more",
                     l->missing_count - shown);
        shown = l->missing_count;
    }
    for (int i = 0; i < l->wrong_count && i < FAULTS_KEPT; i++) {
        if (!append(line, sizeof line, line[0] ? "; " : "", l->wrong[i]))
            break;
        shown++;
    }
    if (count > shown)
        snprintf(more, sizeof more, "; and %d more", count - shown);
    return fail(err, l->unsupported == count ? FORAY_EUNSUPPORTED : FORAY_EFILE, "%s: %s: %s%s (%s)", path,
                what, line, more, remedy);
}
