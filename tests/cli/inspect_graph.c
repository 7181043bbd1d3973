/* What inspect --graph prints is what a run replays: timelines and step records of another process join to it, whatever order
 * its graphs were captured in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cli_program.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#define RUN(...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, NULL)

static char model[512], timeline[512], steps[512];
static json_t *graphs; /* of inspect */

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int whole(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is missing or no integer", key);
    return (int)json_integer_value(value);
}

static void assert_runs(cli_result r, buf *out)
{
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    if (out) {
        *out = r.out;
        r.out = (buf) { 0 };
    }
    cli_free(&r);
}

static int run_both(void **state)
{
    (void)state;
    buf out = { 0 };
    tiny_v4_spec spec = tiny_v4_small();
    spec.drafter = DEEPSEEK4_NEXTN;
    snprintf(model, sizeof model, "%s", tiny_v4_model(&spec, TINY_V4_PLAIN));
    const char *folder = tiny_folder();
    snprintf(timeline, sizeof timeline, "%s", tiny_path(folder, "timeline.json"));
    snprintf(steps, sizeof steps, "%s", tiny_path(folder, "steps.jsonl"));
    /* The graphs of a fixed budget are others, and come in another order. */
    assert_runs(RUN("run", "-m", model, "--raw", "-p", "hello", "-n", "24", "--temp", "0", "--ignore-eos",
                    "-t", "2", "--spec", "nextn", "--spec-tokens", "2", "--spec-budget", "2", "-q",
                    "--timeline", timeline, "--steps", steps),
                NULL);
    assert_runs(RUN("inspect", model, "--graph", "--spec", "nextn", "--spec-tokens", "2", "-t", "1"), &out);
    json_t *dump = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(dump);
    graphs = json_incref(json_object_get(dump, "graphs"));
    json_decref(dump);
    buf_free(&out);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    json_decref(graphs);
    return 0;
}

/* The dumped entry of a graph; exactly one has its number. */
static const json_t *entry_of(int id)
{
    const json_t *found = NULL, *one;
    size_t i;
    json_array_foreach(graphs, i, one)
    {
        if (whole(json_object_get(one, "graph"), "graph") != id)
            continue;
        assert_null(found);
        found = one;
    }
    if (!found)
        fail_msg("graph %d was not dumped", id);
    return found;
}

static bool has_event(const json_t *node, int event)
{
    const json_t *edge;
    size_t i;
    json_array_foreach(json_object_get(node, "after"), i, edge)
    {
        if (whole(edge, "event") == event)
            return true;
    }
    return event < 0;
}

/* NULL: it takes no part in the graph. */
static const char *stream_name(const json_t *graph, int stream)
{
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(graph, "streams"), i, one)
    {
        if (whole(one, "stream") == stream)
            return text(one, "name");
    }
    return NULL;
}

/* A task of a graph is the node that its arguments name. Returns the phase of its graph. */
static const char *assert_joins(const json_t *task)
{
    const json_t *args = json_object_get(task, "args"), *entry = entry_of(whole(args, "graph"));
    const json_t *graph = json_object_get(entry, "graph");
    const json_t *node = json_array_get(json_object_get(graph, "nodes"), (size_t)whole(args, "node"));
    assert_non_null(node);
    assert_int_equal(whole(node, "node"), whole(args, "node"));
    assert_string_equal(text(node, "name"), text(task, "name"));
    assert_string_equal(text(node, "class"), text(task, "cat"));
    assert_int_equal(whole(node, "stream"), whole(task, "tid"));
    assert_true(has_event(node, whole(args, "waited_event")));
    bool own = strcmp(text(args, "phase"), text(entry, "phase")) == 0;
    assert_true(own || strcmp(text(args, "phase"), "accept") == 0 ||
                strcmp(text(args, "phase"), "commit") == 0);
    return text(entry, "phase");
}

static void every_replayed_task_of_a_timeline_is_a_node_of_the_dump(void **state)
{
    (void)state;
    static const char *const phases[] = { "target_verify", "draft", "draft_extend" };
    int seen[3] = { 0 }, arrived = 0, named = 0;
    json_t *trace = json_load_file(timeline, 0, NULL), *one;
    size_t i;
    assert_non_null(trace);
    json_array_foreach(json_object_get(trace, "traceEvents"), i, one)
    {
        const json_t *args = json_object_get(one, "args");
        if (strcmp(text(one, "ph"), "M") == 0 && strcmp(text(one, "name"), "thread_name") == 0) {
            const json_t *verify = json_object_get(json_array_get(graphs, 1), "graph");
            const char *name = stream_name(verify, whole(one, "tid"));
            if (name)
                assert_string_equal(text(args, "name"), name);
            named += name != NULL;
        }
        if (strcmp(text(one, "ph"), "X") != 0 || whole(args, "graph") < 0)
            continue;
        const char *phase = assert_joins(one);
        for (int p = 0; p < 3; p++)
            seen[p] += strcmp(phase, phases[p]) == 0;
        arrived += whole(args, "waited_event") >= 0;
    }
    for (int p = 0; p < 3; p++)
        assert_true(seen[p] > 0);
    assert_true(arrived > 0);
    assert_int_equal(named, 4); /* main and three branches */
    json_decref(trace);
}

/* Edges of a dumped graph that an event of this name made, into nodes of this stream from nodes of that. */
static int count_edges(const json_t *graph, const char *waiting, const char *awaited, const char *from)
{
    const json_t *nodes = json_object_get(graph, "nodes"), *node, *edge, *mark;
    size_t i, k, m;
    int count = 0;
    json_array_foreach(nodes, i, node)
    {
        json_array_foreach(json_object_get(node, "after"), k, edge)
        {
            const json_t *other = json_array_get(nodes, (size_t)whole(edge, "node"));
            bool named = false;
            json_array_foreach(json_object_get(graph, "events"), m, mark)
            {
                named |=
                    whole(mark, "event") == whole(edge, "event") && strcmp(text(mark, "name"), awaited) == 0;
            }
            count += named && strcmp(stream_name(graph, whole(node, "stream")), waiting) == 0 &&
                     strcmp(stream_name(graph, whole(other, "stream")), from) == 0;
        }
    }
    return count;
}

static bool takes_part(const json_t *graph, const char *stream)
{
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(graph, "streams"), i, one)
    {
        if (strcmp(text(one, "name"), stream) == 0)
            return true;
    }
    return false;
}

/* What decoded or verified in a step. */
static const json_t *target_of(const json_t *route)
{
    const json_t *one;
    size_t i;
    json_array_foreach(graphs, i, one)
    {
        char name[64];
        const char *phase = text(one, "phase"), *taken = text(route, phase);
        if (!taken || (strcmp(phase, "decode") != 0 && strcmp(phase, "target_verify") != 0))
            continue;
        snprintf(name, sizeof name, "graph:%dx%d", whole(one, "requests"), whole(one, "rows"));
        if (strcmp(taken, name) == 0)
            return json_object_get(one, "graph");
    }
    return NULL;
}

/* Those of other streams lie between launches. */
static void the_waits_of_a_step_are_the_edges_between_streams_of_the_dump(void **state)
{
    (void)state;
    static char line[1 << 16];
    int checked = 0;
    FILE *f = fopen(steps, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *step = json_loads(line, 0, NULL), *wait;
        const json_t *graph = target_of(json_object_get(step, "route"));
        size_t i;
        int joins = 0;
        json_array_foreach(json_object_get(step, "waits"), i, wait)
        {
            if (!graph || !takes_part(graph, text(wait, "stream")) || !takes_part(graph, text(wait, "from")))
                continue;
            joins += whole(wait, "joins");
            assert_int_equal(whole(wait, "joins"), count_edges(graph, text(wait, "stream"),
                                                               text(wait, "event"), text(wait, "from")));
        }
        checked += joins > 0;
        json_decref(step);
    }
    fclose(f);
    assert_true(checked > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_replayed_task_of_a_timeline_is_a_node_of_the_dump),
        cmocka_unit_test(the_waits_of_a_step_are_the_edges_between_streams_of_the_dump),
    };
    return cmocka_run_group_tests(tests, run_both, forget);
}
