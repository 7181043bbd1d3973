/* work.h: how much a step has to do, from what servers write into its label.
 *
 *     SGLang   step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072], step[EXTEND bs=2 toks=10]
 *     vLLM     execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785),
 *              execute_context_1(888)_generation_0(0)
 *
 * sq: query rows over all requests; sk: keys that they attend to. Pure. Threads: any.
 */
#ifndef FORAY_TIMELINE_WORK_H
#define FORAY_TIMELINE_WORK_H

#include <stdint.h>

/* -1 where the label does not say. */
typedef struct {
    int requests, rows;
    int64_t keys;
} step_work;

step_work work_of_label(const char *label);

#endif
