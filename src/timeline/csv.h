/* csv.h: rows of a table in text, one after the other, in constant memory.
 *
 * Takes what spreadsheets and profilers write: a byte order mark, quoted fields with commas, doubled quotes and line ends in them, CR
 * LF, fields that end with blanks or a TAB, rows with fewer fields than the first. Knows no column.
 * Threads: one per reader.
 */
#ifndef FORAY_TIMELINE_CSV_H
#define FORAY_TIMELINE_CSV_H

#include "timeline/source.h"

#ifdef FORAY_TORTURE
enum { CSV_ROW_BYTES = 1 << 10 }; /* so that some rows are too long */
#else
enum { CSV_ROW_BYTES = 1 << 20 };
#endif
enum { CSV_FIELDS = 128 };

typedef struct {
    source *from;
    char block[16 << 10];
    size_t at, have;
    char *row;               /* [CSV_ROW_BYTES] the fields' text, each with a NUL behind it */
    char *field[CSV_FIELDS]; /* blanks around them are cut off */
    size_t fields;
    size_t too_long; /* rows that were passed over */
} csv;

/* The source stays the caller's. */
int csv_open(source *from, csv *out, foray_error *err);
void csv_close(csv *c);
/* The next row; false at the end. Its fields live until the next call. */
bool csv_next(csv *c);
/* The field of a column (-1: none), "" where the row has it not. */
const char *csv_field(const csv *c, int column);
/* The column of a name in the row that was read last; -1: none. */
int csv_column(const csv *c, const char *name);

#endif
