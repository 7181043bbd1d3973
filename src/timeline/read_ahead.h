/* read_ahead.h: the second half of a big plain file, read on a second thread while the first half is being read.
 *
 *     reader   | event | event | … | event ┃ skips here ▶                           | rest |
 *     ahead                                ┃ event | event | … | event, all ordinary ┃
 *
 * Where the second half begins is a guess: a place that looks like the start of an event. It was right if the reader comes to
 * an event at exactly that byte; if not, what was read ahead is thrown away. So the result is that of one reader, always.
 * Threads: one of its own, which has its own source, scan and store until the reader takes over.
 */
#ifndef FORAY_TIMELINE_READ_AHEAD_H
#define FORAY_TIMELINE_READ_AHEAD_H

#include "timeline/read_chrome.h"

typedef struct ahead ahead;

/* Begins where the file is worth it; main stands at its first event. NULL: it reads alone. */
ahead *ahead_start(const source *from, const scan *main);
/* Is main's current event the first that was read ahead? Then all that was read is r's, and main stands behind it. Ends and
 * clears *a here, and where main has passed the place. */
bool ahead_takes(ahead **a, scan *main, chrome_reader *r);
void ahead_drop(ahead **a);

#endif
