/* read_chrome.h: one reader of Chrome-style events, for read_chrome.c and read_ahead.c alone.
 *
 * What it takes goes into a part of a store. Threads: one per reader and store.
 */
#ifndef FORAY_TIMELINE_READ_CHROME_H
#define FORAY_TIMELINE_READ_CHROME_H

#include "timeline/scan.h"
#include "timeline/store.h"

/* A begin whose end has not come yet. An async range is closed by category and id, on any thread. */
typedef struct {
    uint32_t event;
    uint32_t cat, id; /* of an async range */
    uint16_t lane;
    bool async;
} open_event;

/* The lane of a pid and a tid of up to 16 bytes each, zeros behind them. */
typedef struct {
    uint64_t pid[2], tid[2];
    uint32_t pid_bytes, tid_bytes;
    uint32_t lane; /* + 1; 0: free */
} known_lane;

typedef struct {
    store *s;
    uint32_t part;
    bool saw_ascend, saw_kineto, saw_foray, saw_dump;
    known_lane known[16]; /* hash of both texts: events jump between few lanes */
    open_event *open;
    size_t open_count, open_cap;
} chrome_reader;

/* Takes an event; without memory the store says that it failed. */
void chrome_take(chrome_reader *r, const scan_event *e);
/* Does it mean the same whatever came before it? Begins and ends do not. */
bool chrome_stands_alone(const scan_event *e);

#endif
