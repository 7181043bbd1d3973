/* beside.c: see beside.h. */
#include "timeline/beside.h"

static void *run_it(void *user)
{
    const beside *b = user;
    b->run(b->user);
    return NULL;
}

void beside_start(beside *b, bool worth, void (*run)(void *user), void *user)
{
    *b = (beside) { .run = run, .user = user };
    b->running = worth && pthread_create(&b->thread, NULL, run_it, b) == 0;
    if (!b->running)
        run(user);
}

void beside_wait(beside *b)
{
    if (b->running)
        pthread_join(b->thread, NULL);
    b->running = false;
}

bool beside_worth(size_t events)
{
#ifdef FORAY_TORTURE
    enum { LEAST = 16 };
#else
    enum { LEAST = 20000 }; /* a millisecond or more; a thread costs a few hundredths of one */
#endif
    return events >= LEAST;
}
