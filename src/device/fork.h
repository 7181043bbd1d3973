/* fork.h: streams beside a main one, for branches that part and join again.
 *
 *     main   ──┬──────────────┬──▶      fork_begin: the side follows what main has been given so far
 *     side     └── branch ────┘         fork_join:  main follows what the side has been given so far
 *
 * Works eagerly and inside a capture, where both become edges of the graph. A side may begin several times before it
 * joins. Threads: the host thread.
 */
#ifndef FORAY_DEVICE_FORK_H
#define FORAY_DEVICE_FORK_H

#include "device/device.h"

enum { FORK_SIDES = 4 };

typedef struct fork_streams fork_streams;

/* names: static, one per side; at most FORK_SIDES. *out is owned: fork_destroy (NULL is let pass). */
int fork_create(device *d, const char *const *names, int sides, fork_streams **out, foray_error *err);
void fork_destroy(fork_streams *f);

/* The side's stream, for the branch; main goes on meanwhile. Buffers that both write, or that one writes and the other
 * reads, need an edge. *out is left alone on an error. */
int fork_begin(fork_streams *f, int side, stream *main, stream **out, foray_error *err);
int fork_join(fork_streams *f, int side, stream *main, foray_error *err);

/* Waits for what the sides have been given: after a failure between the two, main waits for none of it. NULL is let
 * pass. */
void fork_drain(fork_streams *f);

#endif
