/* manifest.h: under which conditions figures were made: the first line of every steps, bench and timeline
 * file. Pure but for reading the machine's name and load once. Threads: any.
 */
#ifndef FORAY_OBSERVE_MANIFEST_H
#define FORAY_OBSERVE_MANIFEST_H

#include "base/buf.h"

/* Everything is borrowed. Options are name and resolved value, in the table's order. */
typedef struct {
    const char *model;       /* file name, not the path */
    uint64_t model_checksum; /* XXH3 */
    const char *isa, *drafter, *graph_state, *recorded;
    int threads, concurrency;
    int prompt_tokens, max_tokens; /* 0: requests differ */
    int spec_tokens;
    const char *const *option_names, *const *option_values;
    size_t options;
} manifest;

/* Appends one JSON object with the envelope of dspark.md 6.1 and foray's fields; commit, version, machine
 * and processor are filled in here. */
void manifest_json(const manifest *m, buf *out);
const char *manifest_commit(void);
/* For example "2x Intel Xeon, avx512+vnni". Static. */
const char *manifest_machine(void);

#endif
