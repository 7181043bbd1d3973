/* analysis.c: the parts of an analysis in their order. */
#include "timeline/analysis.h"

#include "base/mem.h"
#include "timeline/list.h"
#include "timeline/records.h"

int analyse_tasks(store *s, const settled *t, const rules *r, uint32_t of_group, analysis *out,
                  foray_error *err)
{
    analysis a = { 0 };
    int rc = task_graph_build(s, t, of_group, &a.graph, err);
    if (rc != FORAY_OK)
        return rc;
    rc = stages_by_annotation(&a, r, err);
    if (rc == FORAY_OK)
        rc = steps_find(&a, r, err);
    if (rc == FORAY_OK)
        rc = stages_by_order(&a, r, err);
    if (rc != FORAY_OK)
        analysis_free(&a);
    else
        *out = a;
    return rc;
}

int analyse_path(analysis *a, const rules *r, const steps_file *records, foray_error *err)
{
    const group *g = &a->graph.t->groups[a->graph.group];
    int rc = path_walk(a, r, err);
    if (rc == FORAY_OK)
        rc = figures_make(a, err);
    if (rc == FORAY_OK && records->count > 0)
        rc = records_align(a, records, g->rank_guessed ? -1 : g->rank, err);
    if (rc == FORAY_OK)
        rc = windows_choose(a, err);
    if (rc == FORAY_OK)
        rc = what_if_run(a, err);
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
    for (size_t i = 0; i < a->path_chunk_cap; i++)
        if (a->path_chunks[i] != NULL)
            mem_free(MEM_RECORDS, a->path_chunks[i], PATH_CHUNK * sizeof(segment));
    list_free(&a->path_chunks, &a->path_chunk_cap, sizeof *a->path_chunks);
    list_free(&a->forks, &a->fork_cap, sizeof *a->forks);
    list_free(&a->what_ifs, &a->what_if_cap, sizeof *a->what_ifs);
    list_free(&a->waits, &a->wait_cap, sizeof *a->waits);
    list_free(&a->peers, &a->peer_cap, sizeof *a->peers);
    list_free(&a->buckets, &a->bucket_cap, sizeof *a->buckets);
    *a = (analysis) { 0 };
}
