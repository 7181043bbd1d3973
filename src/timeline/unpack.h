/* unpack.h: one compressed format, piece by piece: unpack_gzip.c, unpack_zstd.c.
 *
 * A build leaves out what it does not want to need (CMake: FORAY_ZLIB, FORAY_ZSTD); source.c then refuses such files. Several
 * members or frames in a row are one stream. Threads: one per state.
 */
#ifndef FORAY_TIMELINE_UNPACK_H
#define FORAY_TIMELINE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

/* Where unpacking stands. The owner fills data; the format moves at. */
typedef struct {
    char *data; /* [bytes] */
    size_t bytes, at;
    bool inside; /* in the middle of a member or frame: the end may not come now */
    const char
        *fault; /* what is damaged, or "" where the stream is over though bytes follow; NULL: nothing */
} unpack_input;

typedef struct {
    const char *name;    /* "gzip" */
    void *(*open)(void); /* NULL: no memory */
    /* Unpacks from the input into out[0, room); returns the bytes written, which may be some without new input. */
    size_t (*some)(void *state, unpack_input *in, char *out, size_t room);
    void (*close)(void *state);
} unpack_format;

extern const unpack_format unpack_gzip, unpack_zstd;

#endif
