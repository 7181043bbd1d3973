/* shapes.h: reads events that are written like earlier ones, by comparing what stands between their values.
 *
 *     {"ph": "█", "cat": "█", "ts": █, "args": {"stream": █}}        █ a value; the rest is glue
 *
 * A profiler writes millions of events in a few dozen ways. The ways seen so far form a tree whose nodes are glue; an
 * event that follows a path from the root to a closing brace has its values read without looking at keys. What does not
 * is read in full by scan.c and its way is learned, until the tree is full. Either way the result is the same.
 * Threads: one per tree.
 */
#ifndef FORAY_TIMELINE_SHAPES_H
#define FORAY_TIMELINE_SHAPES_H

#include <stddef.h>

#include "timeline/scan.h"

enum { GLUE_BYTES = 48, SHAPE_NODES = 1024, SHAPE_PIECES = 96 };

/* A value as it was read in full: where it stands (a string without its quotes) and what became of it. */
typedef struct {
    const char *from, *to;
    char kind;       /* as scan_value's, but for 0 */
    uint16_t member; /* offset in scan_event */
    uint64_t have;   /* the bit of an argument; 0 */
} shape_piece;

/* Glue and the value behind it; kind '}': the glue ends the event. */
typedef struct {
    char glue[GLUE_BYTES]; /* zeros behind its end */
    uint64_t have;
    uint16_t bytes, member;
    uint32_t last;        /* bytes from the glue to the end of the value that was read last */
    uint16_t next, child; /* another way at this place; what comes behind the value; 0: none */
    char kind;
} shape_node;

typedef struct {
    shape_node node[SHAPE_NODES]; /* 0 is the root, which has no glue */
    uint16_t count;
} shapes;

void shapes_init(shapes *t);
/* Reads the event whose brace stands at *at, if it is written in a known way: fills e's values and moves *at behind it.
 * False: the way is unknown or the window ends; e and *bad_escapes may have changed, *at has not. */
bool shapes_follow(shapes *t, const char **at, const char *end, scan_event *e, uint64_t *bad_escapes);
/* Learns the way in which the event from..to is written. */
void shapes_learn(shapes *t, const char *from, const char *to, const shape_piece *pieces, size_t count);

#endif
