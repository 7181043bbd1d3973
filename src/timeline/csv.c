/* csv.c: one state per byte: outside of quotes, inside, or at a quote inside that may be the end. */
#include "timeline/csv.h"

#include <string.h>

#include "base/mem.h"

int csv_open(source *from, csv *out, foray_error *err)
{
    memset(out, 0, sizeof *out);
    out->from = from;
    out->row = mem_alloc(MEM_RECORDS, CSV_ROW_BYTES);
    return out->row != NULL ? FORAY_OK : fail(err, FORAY_ENOMEM, "%s: out of memory", source_name(from));
}

void csv_close(csv *c)
{
    mem_free(MEM_RECORDS, c->row, CSV_ROW_BYTES);
    c->row = NULL;
}

static int next_byte(csv *c)
{
    if (c->at == c->have) {
        c->have = source_read(c->from, c->block, sizeof c->block);
        c->at = 0;
        if (c->have == 0)
            return -1;
    }
    return (unsigned char)c->block[c->at++];
}

/* Cuts blanks off both ends of the text that ends at `end`. */
static void finish_field(csv *c, char *start, char *end)
{
    while (end > start && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    *end = '\0';
    if (c->fields < CSV_FIELDS)
        c->field[c->fields++] = start;
}

bool csv_next(csv *c)
{
    bool quoted = false, any = false;
    size_t n = 0, start = 0;
    c->fields = 0;
    for (;;) {
        int b = next_byte(c);
        if (b == '"' && quoted) {
            b = next_byte(c);
            if (b != '"')
                quoted = false;
        } else if (b == '"' && n == start) {
            quoted = true;
            any = true;
            continue;
        }
        bool ends_row = b < 0 || (b == '\n' && !quoted);
        if (ends_row || (b == ',' && !quoted)) {
            any = any || !ends_row || n > start;
            if (n < CSV_ROW_BYTES)
                finish_field(c, c->row + start, c->row + n);
            start = ++n;
            if (!ends_row)
                continue;
            if (n >= CSV_ROW_BYTES) { /* no row of a table */
                c->too_long++;
                any = false;
            }
            if (any || b < 0)
                return any;
            n = start = 0; /* an empty line */
            c->fields = 0;
            continue;
        }
        if (n < CSV_ROW_BYTES)
            c->row[n] = (char)b;
        n++;
        if (n == 3 && start == 0 && memcmp(c->row, "\xef\xbb\xbf", 3) == 0)
            n = 0;
    }
}

const char *csv_field(const csv *c, int column)
{
    return column >= 0 && (size_t)column < c->fields ? c->field[column] : "";
}

int csv_column(const csv *c, const char *name)
{
    for (size_t i = 0; i < c->fields; i++)
        if (strcmp(c->field[i], name) == 0)
            return (int)i;
    return -1;
}
