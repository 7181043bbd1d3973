/* analysis.c: the parts of an analysis in their order. */
#include "timeline/analysis.h"

#include "base/mem.h"
#include "timeline/beside.h"
#include "timeline/list.h"
#include "timeline/path.h"
#include "timeline/records.h"
#include "timeline/what_if.h"

int analyse_steps(analysis *a, const rules *r, const host_side *h, foray_error *err)
{
    stages_by_annotation(a, h);
    int rc = steps_find(a, r, err);
    return rc == FORAY_OK ? stages_by_order(a, r, err) : rc;
}

static void run_unchanged(void *user)
{
    if (user != NULL)
        rerun_unchanged(user);
}

/* What comes from the path once it is walked. */
static int judge_path(analysis *a, const steps_file *records, foray_error *err)
{
    const group *g = &a->graph.t->groups[a->graph.group];
    int rc = figures_make(a, err);
    if (rc == FORAY_OK && records->count > 0)
        rc = records_align(a, records, g->rank_guessed ? -1 : g->rank, err);
    return rc == FORAY_OK ? windows_choose(a, err) : rc;
}

int analyse_path(analysis *a, const rules *r, const host_side *h, const steps_file *records, foray_error *err)
{
    host_waits waits;
    rerun *again = NULL;
    beside unchanged;
    int rc = host_waits_find(&a->graph, &waits, err);
    if (rc != FORAY_OK)
        return rc;
    rc = rerun_open(a, &waits, &again, err);
    if (rc == FORAY_OK) {
        beside_start(&unchanged, beside_worth(a->graph.count), run_unchanged, again);
        rc = path_walk(a, r, h, &waits, err);
        if (rc == FORAY_OK)
            rc = judge_path(a, records, err);
        beside_wait(&unchanged);
    }
    if (rc == FORAY_OK && again != NULL)
        rc = what_if_try(a, again, err);
    rerun_close(again);
    host_waits_free(&waits);
    return rc;
}

double analysis_mean_commit(const analysis *a)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].reason == STEP_KEPT && a->steps[i].commit_length > 0) {
            sum += a->steps[i].commit_length;
            n++;
        }
    return n > 0 ? sum / (double)n : 0;
}

void analysis_free(analysis *a)
{
    task_graph_free(&a->graph);
    list_free(&a->steps, &a->step_cap, sizeof *a->steps);
    for (int half = 0; half < 2; half++)
        chunks_free(&a->path[half].chunks, PATH_CHUNK * sizeof(segment));
    list_free(&a->forks, &a->fork_cap, sizeof *a->forks);
    list_free(&a->what_ifs, &a->what_if_cap, sizeof *a->what_ifs);
    list_free(&a->waits, &a->wait_cap, sizeof *a->waits);
    list_free(&a->peers, &a->peer_cap, sizeof *a->peers);
    list_free(&a->buckets, &a->bucket_cap, sizeof *a->buckets);
    *a = (analysis) { 0 };
}
