/* beside.h: a piece of work on a second thread, while the first does another.
 *
 * Neither may touch what the other changes: which of them comes first shows in nothing. Threads: one per piece.
 */
#ifndef FORAY_TIMELINE_BESIDE_H
#define FORAY_TIMELINE_BESIDE_H

#include <pthread.h>
#include <stdbool.h>

typedef struct {
    void (*run)(void *user);
    void *user;
    pthread_t thread;
    bool running;
} beside;

/* Begins run(user). Where it is not worth a thread, or none can be had, it is done before this returns. */
void beside_start(beside *b, bool worth, void (*run)(void *user), void *user);
/* It is done when this returns. */
void beside_wait(beside *b);
/* Is work on so many events worth a thread? */
bool beside_worth(size_t events);

#endif
