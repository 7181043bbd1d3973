/* records.c: lays step records against a profile's steps, or makes steps of them. */
#include "timeline/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"

enum { MOST_STEPS = 20000, LEAST_PAIRS = 3 };

/* The steps of a profile that records speak of, and the records of a rank that are decode steps. */
typedef struct {
    size_t *steps;
    const step_entry **records;
    size_t step_count, record_count;
} two_rows;

static bool of_rank(const step_entry *e, int rank)
{
    return e->decode && (e->rank < 0 || e->rank == rank || rank < 0);
}

static int gather(const analysis *a, const steps_file *f, int rank, two_rows *out, foray_error *err)
{
    *out = (two_rows) { 0 };
    out->steps = mem_alloc(MEM_RECORDS, (a->step_count + 1) * sizeof *out->steps);
    out->records = mem_alloc(MEM_RECORDS, (f->count + 1) * sizeof *out->records);
    if (out->steps == NULL || out->records == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory to align step records");
    for (size_t i = 0; i < a->step_count; i++)
        if (!a->steps[i].prefill)
            out->steps[out->step_count++] = i;
    for (size_t i = 0; i < f->count; i++)
        if (of_rank(&f->entries[i], rank))
            out->records[out->record_count++] = &f->entries[i];
    return FORAY_OK;
}

/* How badly the records from `offset` on fit the steps: mean difference of the durations in ns over the pairs that have
 * both; pairs with different numbers of requests count as a whole step off. -1: too few pairs. */
static int64_t residual(const analysis *a, const two_rows *t, int64_t offset, size_t *pairs)
{
    int64_t sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->step_count; i++) {
        int64_t k = (int64_t)i + offset;
        if (k < 0 || k >= (int64_t)t->record_count)
            continue;
        const step *s = &a->steps[t->steps[i]];
        const step_entry *e = t->records[k];
        int64_t wall = s->end - s->start;
        if (s->requests >= 0 && e->requests >= 0 && s->requests != e->requests) {
            sum += wall;
            n++;
        } else if (e->wall_ns > 0 &&
                   (i + 1 < t->step_count || a->boundary == BOUNDARY_ROUND)) { /* the last one has no next */
            sum += llabs(wall - e->wall_ns);
            n++;
        }
    }
    size_t least = t->step_count < t->record_count ? t->step_count : t->record_count;
    *pairs = n;
    if (n < LEAST_PAIRS || n * 2 + 1 < least)
        return -1;
    return sum / (int64_t)n;
}

static void accept_records(analysis *a, const two_rows *t, int64_t offset)
{
    for (size_t i = 0; i < t->step_count; i++) {
        int64_t k = (int64_t)i + offset;
        if (k < 0 || k >= (int64_t)t->record_count)
            continue;
        step *s = &a->steps[t->steps[i]];
        const step_entry *e = t->records[k];
        if (e->committed_requests > 0)
            s->commit_length = (double)e->commit_sum / e->committed_requests;
        s->record_draft_ns = e->draft_ns;
        s->record_verify_ns = e->verify_ns;
        s->record_step_ns = e->step_ns;
        s->has_record = true;
        if (s->requests < 0)
            s->requests = e->requests;
        if (s->rows < 0)
            s->rows = e->verify_tokens;
    }
}

int records_align(analysis *a, const steps_file *f, int rank, foray_error *err)
{
    two_rows t;
    int rc = gather(a, f, rank, &t, err);
    if (rc == FORAY_OK && t.step_count > 0 && t.record_count > 0 && t.step_count < MOST_STEPS &&
        t.record_count < 10 * MOST_STEPS) {
        int64_t best = -1, second = -1, offset = 0;
        size_t pairs = 0;
        for (int64_t o = -(int64_t)t.step_count + 1; o < (int64_t)t.record_count; o++) {
            size_t n;
            int64_t r = residual(a, &t, o, &n);
            if (r < 0)
                continue;
            if (best < 0 || r < best || (r == best && n > pairs)) {
                second = best;
                best = r;
                offset = o;
                pairs = n;
            } else if (second < 0 || r < second) {
                second = r;
            }
        }
        a->records.tried = true;
        a->records.residual_ns = best;
        a->records.second_ns = second;
        a->records.offset = offset;
        a->records.pairs = pairs;
        int64_t wall = (a->steps[a->step_count - 1].end - a->steps[0].start) / (int64_t)a->step_count;
        a->records.aligned = best >= 0 && best <= wall / 10; /* a tenth of a step: more is no agreement */
        if (a->records.aligned)
            accept_records(a, &t, offset);
    }
    mem_free(MEM_RECORDS, t.steps, (a->step_count + 1) * sizeof *t.steps);
    mem_free(MEM_RECORDS, t.records, (f->count + 1) * sizeof *t.records);
    return rc;
}

/* ---- records alone ---------------------------------------------------------------------------- */

/* A record's accounts: its own phases, or what was measured of draft and verify, the rest being unattributed. */
static void take_accounts(const step_entry *e, step *s)
{
    int64_t wall = s->end - s->start, rest = wall;
    if (e->has_phases) {
        for (int p = 0; p < PHASE_COUNT; p++)
            s->phases_ns[p] = e->phases_ns[p];
        for (int p = 0; p < PHASE_COUNT; p++)
            rest -= s->phases_ns[p];
        s->phases_ns[PHASE_UNATTRIBUTED] += rest;
        return;
    }
    const int64_t measured[] = { e->draft_ns, e->verify_ns };
    const phase of[] = { PHASE_DRAFT, PHASE_TARGET_VERIFY };
    for (int i = 0; i < 2; i++) {
        int64_t ns = measured[i] > 0 ? measured[i] < rest ? measured[i] : rest : 0;
        s->phases_ns[of[i]] = ns;
        s->stages[of[i]].elapsed_ns = measured[i] > 0 ? measured[i] : 0;
        s->stages[of[i]].tasks = measured[i] > 0;
        rest -= ns;
    }
    s->phases_ns[PHASE_UNATTRIBUTED] = rest;
}

int records_analyse(store *s, const settled *t, const steps_file *f, int rank, analysis *out,
                    foray_error *err)
{
    analysis a = { .boundary = BOUNDARY_RECORDS };
    int64_t clock = 0;
    int rc = FORAY_OK;
    a.graph.s = s;
    a.graph.t = t;
    for (size_t i = 0; i < f->count && rc == FORAY_OK; i++) {
        const step_entry *e = &f->entries[i];
        if (e->rank >= 0 && rank >= 0 && e->rank != rank)
            continue;
        if (!list_reserve(&a.steps, &a.step_cap, a.step_count + 1, sizeof *a.steps)) {
            rc = fail(err, FORAY_ENOMEM, "out of memory for step records");
            break;
        }
        int64_t wall = e->wall_ns > 0 ? e->wall_ns : e->step_ns;
        if (wall > INT64_MAX / 2 - clock) {
            rc = fail(err, FORAY_ELIMIT, "%s: its steps last longer together than a clock can count",
                      f->files[e->file].path);
            break;
        }
        step x = { .start = clock,
                   .end = clock + (wall > 0 ? wall : 0),
                   .round = e->forward_ct,
                   .prefill = !e->decode,
                   .requests = e->requests,
                   .rows = e->verify_tokens,
                   .keys = -1,
                   .bucket = -1,
                   .reason = wall > 0 ? STEP_KEPT : STEP_NO_TIME };
        x.commit_length = e->committed_requests > 0 ? (double)e->commit_sum / e->committed_requests : 0;
        take_accounts(e, &x);
        clock = x.end;
        a.sums_checked++;
        a.steps[a.step_count++] = x;
    }
    if (rc == FORAY_OK)
        rc = windows_choose(&a, err);
    if (rc != FORAY_OK)
        analysis_free(&a);
    else
        *out = a;
    return rc;
}
