/* source.h: the bytes of a trace file, plain, gzip or zstd, recognised by content and never by name.
 *
 * A compressed file is unpacked on a second thread, a few blocks ahead of whoever reads. Several members or frames
 * in a row are one stream. What could be unpacked before damage is delivered; the damage is told afterwards.
 * Threads: one reader per source; the source owns its own second thread.
 */
#ifndef FORAY_TIMELINE_SOURCE_H
#define FORAY_TIMELINE_SOURCE_H

#include <stdint.h>

#include "base/error.h"

typedef enum { SOURCE_PLAIN, SOURCE_GZIP, SOURCE_ZSTD } source_kind;

typedef struct source source;

/* Opens a file. EFILE where it cannot be read, EUNSUPPORTED for a packing that this build leaves out. *out is owned. */
int source_open(const char *path, source **out, foray_error *err);
/* Bytes in memory, borrowed: for tests. They may be compressed as well. */
int source_memory(const char *name, const void *data, size_t bytes, source **out, foray_error *err);
/* The same plain file once more, from a byte on, for a second reader. NULL: it is packed, no file, or cannot be opened. */
source *source_open_again(const source *s, uint64_t offset);
/* Goes on at a byte of a plain file. */
bool source_seek(source *s, uint64_t offset);
void source_close(source *s);

/* Copies up to room bytes to out; returns how many: 0 at the end (or at damage: source_problem). room >= 1. */
size_t source_read(source *s, char *out, size_t room);

const char *source_name(const source *s);
source_kind source_packing(const source *s);
uint64_t source_packed_bytes(const source *s); /* of the file as it lies on disk; 0: a pipe */
/* What ended the bytes early ("the gzip data is cut short at byte 123"); "" while all is well. */
const char *source_problem(const source *s);

#endif
