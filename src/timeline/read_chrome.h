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

typedef struct {
    store *s;
    uint32_t part;
    bool saw_ascend, saw_kineto, saw_foray, saw_dump;
    /* The lane of the last event, and of which texts: neighbours mostly share it. */
    char last_pid[24], last_tid[24];
    uint32_t last_pid_bytes, last_tid_bytes;
    int last_lane; /* -1: none */
    open_event *open;
    size_t open_count, open_cap;
} chrome_reader;

/* Takes an event; without memory the store says that it failed. */
void chrome_take(chrome_reader *r, const scan_event *e);
/* Does it mean the same whatever came before it? Begins and ends do not. */
bool chrome_stands_alone(const scan_event *e);

#endif
