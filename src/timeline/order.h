/* order.h: every lane's events in order of time. Threads: one at a time. */
#ifndef FORAY_TIMELINE_ORDER_H
#define FORAY_TIMELINE_ORDER_H

#include "timeline/settle.h"

/* Fills out's first, order and kind, and sums its groups and the tasks of s's parts up on the way. */
int order_events(const store *s, settled *out, foray_error *err);

#endif
