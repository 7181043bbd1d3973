/* job.h: requests that know what they must say: what plain decoding, eager and alone, says. And the tiny models that they run
 * on, one of each kind of cache, with one oracle each.
 *
 * Asserts (cmocka) on errors. Threads: one.
 */
#ifndef FORAY_TESTS_SUPPORT_JOB_H
#define FORAY_TESTS_SUPPORT_JOB_H

#include "support/stack.h"

/* Llama; Mistral, whose window is shorter than the texts; DeepSeek-V4 with a NextN layer. */
enum { JOB_LLAMA, JOB_WINDOWED, JOB_SPARSE, JOB_MODELS };
enum { JOB_CONTEXT = 256, JOB_MOST = 160 };

typedef struct {
    foray_request_config config;
    int32_t ids[JOB_CONTEXT], said[JOB_MOST], script[JOB_MOST];
    foray_request handle; /* 0: not submitted, or released */
} job;

/* Group setup and teardown: writes the models, opens and closes the oracles. */
int jobs_open(void **state);
int jobs_close(void **state);

const char *job_model(int which);
/* The drafter of the device that comes with a model: itself, or its NextN layer. */
const char *job_chain(int which);

/* `most` tokens behind a random prompt. Greedy where the seed is odd; else of noise that decides, so that a NextN layer of
 * random weights is often right. The script is right but for every fourth place. */
void job_prepare(job *j, int which, int seed, int prompt, int most);
/* Asks the oracle again: somebody has changed the config. Drafts stay as they were. */
void job_expect(job *j, int which);

void job_submit(stack *s, job *j);
/* It has ended and has said just that. Releases it. */
void job_assert_said(stack *s, job *j);
/* Reads no prompt any more, and has not ended. */
bool job_decodes(const stack *s, const job *j);
/* Submits n, and steps until all of them decode; meanwhile a round brings each a token. Takes the round's hooks away. */
void jobs_fill(stack *s, job *jobs, int n);

/* Parts of rounds that ran eagerly, but for those of rounds that read a prompt. */
int64_t jobs_eager_parts(const stack *s);

#endif
