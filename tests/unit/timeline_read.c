/* The readers against what profilers really write: times in every spelling, broken JSON, damaged packing, events without an
 * end, doubled and lost ones. Each defect has one outcome: recovered and counted, or refused with its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/trace_make.h"
#include "timeline/decimal.h"

/* A file of events in a list, opened and analysed. */
static void analysed(const char *text, session *out)
{
    trace_make_session(text, strlen(text), out);
}

static const part *first_part(const session *s)
{
    return &s->input.events.parts[0];
}

static size_t tasks_of(const session *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->analyses[i].graph.count;
    return n;
}

#define KERNEL(ts, dur)                                                                                      \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":" ts ",\"dur\":" dur "}"

static void decimal_text_becomes_the_nearest_nanosecond(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t ns;
    } cases[] = {
        { "1", true, 1000 },
        { "1.0", true, 1000 },
        { "1.000", true, 1000 },
        { "1e0", true, 1000 },
        { "1E+3", true, 1000000 },
        { "25e-1", true, 2500 },
        { "-1.5", true, -1500 },
        { "0.0004", true, 0 },
        { "0.0005", true, 1 },
        { "-0.0005", true, -1 },
        { "840.07675", true, 840077 },
        { "1736412474714258.990", true, 1736412474714258990 },
        { "4909914216204.635", true, 4909914216204635 },
        { "9223372036854775.807", true, INT64_MAX },
        { "9223372036854775.808", false, 0 },
        { "1e30", false, 0 },
        { "1e-30", true, 0 },
        { "00000000000000000000000001", true, 1000 },
        { "", false, 0 },
        { " 1", false, 0 },
        { "1 ", false, 0 },
        { "true", false, 0 },
        { "nan", false, 0 },
        { "1.", false, 0 },
        { ".5", false, 0 },
        { "1e", false, 0 },
        { "-", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ns = 0;
        bool good = decimal_ns(cases[i].text, strlen(cases[i].text), 3, &ns);
        if (good != cases[i].good || (good && ns != cases[i].ns))
            fail_msg("'%s' is read as %d %lld", cases[i].text, good, (long long)ns);
    }
}

/* Whole numbers of every length, and the same with a byte in any place that is no digit. */
static void digits_of_any_number_are_read_and_nothing_else(void **state)
{
    (void)state;
    static const char digits[] = "9183746502918374650291", others[] = " /:;xX`\0\x10\x40\xb0";
    for (size_t n = 1; n < sizeof digits; n++) {
        char text[sizeof digits] = "";
        uint64_t whole = 0, value = 0;
        int64_t ns = 0;
        bool fits = true;
        for (size_t i = 0; i < n; i++) {
            uint64_t digit = (uint64_t)(digits[i] - '0');
            fits = fits && value <= (UINT64_MAX - digit) / 10;
            value = value * 10 + digit;
        }
        memcpy(text, digits, n);
        assert_int_equal(decimal_whole(text, n, &whole), fits);
        assert_true(!fits || whole == value);
        bool small = fits && value <= INT64_MAX / 1000;
        assert_int_equal(decimal_ns(text, n, 3, &ns), small);
        assert_true(!small || ns == (int64_t)value * 1000);
        for (size_t i = 0; i < n; i++)
            for (size_t o = 0; o + 1 < sizeof others; o++) {
                memcpy(text, digits, n);
                text[i] = others[o];
                if (decimal_whole(text, n, &whole) || decimal_ns(text, n, 3, &ns))
                    fail_msg("%zu digits with byte %d at %zu are a number", n, others[o], i);
            }
    }
}

static void equal_times_in_any_spelling_are_equal(void **state)
{
    (void)state;
    static const char *const spellings[] = { "5", "5.0", "\"5\"", "\"5.000\"", "5e0", "\"0.5e1\"" };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        char text[256];
        session s;
        snprintf(
            text, sizeof text,
            "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":%s,\"dur\":\"2\"}]",
            spellings[i]);
        analysed(text, &s);
        assert_int_equal(tasks_of(&s), 1);
        assert_int_equal(s.analyses[0].graph.tasks[0].start, 5000);
        assert_int_equal(s.analyses[0].graph.tasks[0].end, 7000);
        session_free(&s);
    }
}

/* Threads whose numbers or names differ in one byte only, anywhere; their events come in turn. */
static void threads_are_told_apart_by_every_byte(void **state)
{
    (void)state;
    enum { LONGEST = 24, TURNS = 3 };
    buf text = { 0 };
    session s;
    size_t made = 0;
    buf_puts(&text, "[" KERNEL("1", "1"));
    for (int turn = 0; turn < TURNS; turn++) {
        made = 0;
        for (int bytes = 1; bytes <= LONGEST; bytes++)
            for (int odd = 0; odd <= bytes; odd++)
                for (int of_pid = 0; of_pid < 2; of_pid++, made++) {
                    char name[LONGEST + 1] = "";
                    memset(name, 'a', (size_t)bytes);
                    if (odd < bytes)
                        name[odd] = 'b';
                    buf_printf(&text,
                               ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n\",\"pid\":\"%s\",\"tid\":\"%"
                               "s\",\"ts\":%d,"
                               "\"dur\":1}",
                               of_pid ? name : "p", of_pid ? "t" : name, turn);
                }
    }
    buf_puts(&text, "]");
    analysed(text.data, &s);
    const store *st = &s.input.events;
    size_t found = 0;
    for (size_t l = 0; l < st->lane_count; l++)
        if (st->lanes[l].role == LANE_HOST && st->lanes[l].tid != STORE_PROCESS_TID) {
            assert_int_equal(st->lanes[l].events, TURNS);
            found++;
        }
    assert_int_equal(found, made);
    session_free(&s);
    buf_free(&text);
}

static void events_whose_time_is_no_number_or_on_no_clock_are_counted(void **state)
{
    (void)state;
    session s;
    analysed("[" KERNEL("1", "1") "," KERNEL("true", "1") "," KERNEL("\"\"", "1") "," KERNEL(
                 "\" 1\"", "1") "," KERNEL("NaN", "1") "," KERNEL("4e15", "1") "," KERNEL("-4e15", "1") "]",
             &s);
    assert_int_equal(tasks_of(&s), 1);
    assert_int_equal(first_part(&s)->faults[FAULT_BAD_TIME], 6);
    assert_int_equal(first_part(&s)->fault_at[FAULT_BAD_TIME], strlen("[" KERNEL("1", "1") ","));
    session_free(&s);
}

static void events_without_an_end_are_left_out(void **state)
{
    (void)state;
    session s;
    analysed(
        "[" KERNEL("1", "-1") "," KERNEL("1", "-9223372036854775808") "," KERNEL(
            "1",
            "null") ","
                    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":3}," KERNEL(
                        "1", "0") "," KERNEL("4", "2") "]",
        &s);
    assert_int_equal(first_part(&s)->faults[FAULT_UNFINISHED], 4);
    assert_int_equal(tasks_of(&s), 2);
    session_free(&s);
}

static void one_event_of_centuries_changes_nothing_else(void **state)
{
    (void)state;
    session good, bad;
    analysed("[" KERNEL("100", "10") "," KERNEL("200", "10") "]", &good);
    analysed("[" KERNEL("100", "10") "," KERNEL("150", "7439999999999999") "," KERNEL("200", "10") "]", &bad);
    assert_int_equal(first_part(&bad)->faults[FAULT_ABSURD], 1);
    assert_int_equal(bad.analyses[0].steps[0].end, good.analyses[0].steps[0].end);
    assert_int_equal(tasks_of(&bad), 2);
    session_free(&good);
    session_free(&bad);
}

static void begins_and_ends_pair_up_beside_complete_events(void **state)
{
    (void)state;
    session s;
#define PLACE "\"cat\":\"kernel\",\"pid\":0,\"tid\":7,"
    analysed("[{\"ph\":\"X\",\"name\":\"x1\"," PLACE
             "\"ts\":0,\"dur\":10},{\"ph\":\"B\",\"name\":\"b1\"," PLACE "\"ts\":0},"
             "{\"ph\":\"E\"," PLACE "\"ts\":10},{\"ph\":\"X\",\"name\":\"x2\"," PLACE "\"ts\":10,\"dur\":10},"
             "{\"ph\":\"B\",\"name\":\"b2\"," PLACE "\"ts\":10},{\"ph\":\"B\",\"name\":\"open\"," PLACE
             "\"ts\":11},"
             "{\"ph\":\"E\",\"name\":\"b2\"," PLACE "\"ts\":15},{\"ph\":\"E\",\"name\":\"never\"," PLACE
             "\"ts\":16}]",
             &s);
    const task_graph *g = &s.analyses[0].graph;
    assert_int_equal(g->count, 4);
    int64_t sum = 0;
    for (size_t i = 0; i < g->count; i++)
        sum += g->tasks[i].end - g->tasks[i].start;
    assert_int_equal(sum, 10000 + 10000 + 10000 + 5000);
    assert_int_equal(first_part(&s)->faults[FAULT_UNPAIRED], 2);
    session_free(&s);
}

static void what_is_no_trace_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "empty" },
        { "hello", "no JSON" },
        { "{}", "without traceEvents" },
        { "{\"a\":[1,2", "cut short" },
        { "\xef\xbb\xbf{\"b\":1}", "without traceEvents" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s;
        foray_error err;
        assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
        assert_int_equal(session_add_text(&s, "f.json", cases[i].text, strlen(cases[i].text), &err),
                         FORAY_EFILE);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("'%s' gives: %s", cases[i].text, err.text);
        session_free(&s);
    }
}

static void a_trace_without_work_is_no_crash(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[]",
        "[{}]",
        "{\"traceEvents\":[]}",
        "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"p\"}}]",
        "[{\"ph\":\"C\",\"ts\":1}]",
        "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}]"
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        session s;
        analysed(texts[i], &s);
        assert_int_equal(tasks_of(&s), 0);
        session_free(&s);
    }
}

static void a_file_cut_anywhere_keeps_its_whole_events(void **state)
{
    (void)state;
    static const char again[] = ",\n" KERNEL("1.5", "2.25");
    buf text = { 0 };
    buf_puts(&text, "{\"schemaVersion\":1,\"traceEvents\":[" KERNEL("0", "1"));
    for (int i = 0; i < 9; i++)
        buf_puts(&text, again);
    size_t list = text.len - 9 * strlen(again) - strlen(KERNEL("0", "1"));
    for (size_t cut = list; cut < text.len; cut++) {
        session s;
        trace_make_session(text.data, cut, &s);
        size_t whole = cut < list + strlen(KERNEL("0", "1"))
                           ? 0
                           : 1 + (cut - list - strlen(KERNEL("0", "1"))) / strlen(again);
        if (tasks_of(&s) != whole)
            fail_msg("cut at %zu: %zu events instead of %zu", cut, tasks_of(&s), whole);
        assert_int_equal(first_part(&s)->faults[FAULT_TRUNCATED], 1);
        session_free(&s);
    }
    buf_free(&text);
}

static void damage_inside_an_event_costs_that_event(void **state)
{
    (void)state;
    static const char *const broken[] = {
        ("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a \"quoted\" "
         "name\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1}"),
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"lone \\\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1}",
        "{\"ph\":\"X\",\"cat\":\"kernel\" \"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1}",
        "{\"ph\":\"X\",,\"cat\":\"kernel\",\"name\":\"k\"}",
        "17",
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"args\":{\"a\":[1,2}}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        buf text = { 0 };
        session s;
        buf_printf(&text, "[%s,\n%s,\n%s,\n%s]", KERNEL("0", "1"), broken[i], KERNEL("5", "1"),
                   KERNEL("9", "1"));
        trace_make_session(text.data, text.len, &s);
        if (tasks_of(&s) < 2 || tasks_of(&s) > 3 ||
            first_part(&s)->faults[FAULT_DAMAGED] + first_part(&s)->faults[FAULT_TRUNCATED] == 0)
            fail_msg("case %zu: %zu tasks, %d damaged", i, tasks_of(&s),
                     (int)first_part(&s)->faults[FAULT_DAMAGED]);
        if (first_part(&s)->faults[FAULT_DAMAGED] > 0)
            assert_in_range(first_part(&s)->fault_at[FAULT_DAMAGED], 1, text.len);
        session_free(&s);
        buf_free(&text);
    }
}

static void odd_names_come_through(void **state)
{
    (void)state;
    session s;
    analysed(
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\\\\b\\\"c]}{ \\u00e9\\ud83d\\ude00 "
        "\\x\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ctl\x01 \xff\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":1}]",
        &s);
    assert_int_equal(tasks_of(&s), 2);
    const task_graph *g = &s.analyses[0].graph;
    assert_string_equal(task_name(g, &g->tasks[0]), "a\\b\"c]}{ \xc3\xa9\xf0\x9f\x98\x80 \\x");
    assert_int_equal(s.input.events.names.faulty, 1);
    assert_int_equal(first_part(&s)->faults[FAULT_BAD_ESCAPES], 1);
    session_free(&s);
}

/* ---- packing ---------------------------------------------------------------------------------- */

static size_t pack_gzip(const char *text, size_t bytes, unsigned char *out, size_t room)
{
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)text;
    z.avail_in = (uInt)bytes;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static void packed_files_are_read_whole_and_damage_is_told(void **state)
{
    (void)state;
    static unsigned char packed[1 << 16];
    buf text = { 0 };
    buf_puts(&text, "[" KERNEL("0", "1"));
    for (int i = 1; i < 2000; i++)
        buf_printf(
            &text,
            ",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k%d\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":1}",
            i * 7919 % 1009, i * 2);
    buf_puts(&text, "]");
    session s;
    size_t half = text.len / 2;
    size_t n = pack_gzip(text.data, half, packed, sizeof packed); /* two members */
    n += pack_gzip(text.data + half, text.len - half, packed + n, sizeof packed - n);
    trace_make_session((const char *)packed, n, &s);
    assert_int_equal(tasks_of(&s), 2000);
    assert_int_equal(first_part(&s)->faults[FAULT_PACKING], 0);
    session_free(&s);
    trace_make_session((const char *)packed, n - n / 4, &s); /* cut short */
    assert_in_range(tasks_of(&s), 500, 1999);
    assert_int_equal(first_part(&s)->faults[FAULT_PACKING], 1);
    session_free(&s);
    packed[n - 6] ^= 0x55; /* a wrong checksum: everything was read, and the damage is told */
    trace_make_session((const char *)packed, n, &s);
    assert_int_equal(tasks_of(&s), 2000);
    assert_int_equal(first_part(&s)->faults[FAULT_PACKING], 1);
    session_free(&s);
    n = ZSTD_compress(packed, sizeof packed, text.data, text.len, 3);
    assert_false(ZSTD_isError(n));
    trace_make_session((const char *)packed, n, &s);
    assert_int_equal(tasks_of(&s), 2000);
    assert_int_equal(first_part(&s)->faults[FAULT_PACKING], 0);
    session_free(&s);
    trace_make_session((const char *)packed, n - 6, &s);
    assert_int_equal(first_part(&s)->faults[FAULT_PACKING], 1);
    session_free(&s);
    buf_free(&text);
}

/* ---- tasks ------------------------------------------------------------------------------------ */

static void overlapping_tasks_count_once_in_busy_and_fully_in_the_sum(void **state)
{
    (void)state;
    session s;
    analysed("[" KERNEL("0", "100") "," KERNEL("10", "10") "," KERNEL("50", "100") "]", &s);
    const stage_figures *f = &s.analyses[0].steps[0].stages[PHASE_UNATTRIBUTED];
    assert_int_equal(f->busy_ns, 150000);
    assert_int_equal(f->sum_ns, 210000);
    assert_int_equal(first_part(&s)->faults[FAULT_OVERLAP], 2);
    session_free(&s);
}

static void collectives_old_and_new_are_communication_and_marks_are_no_work(void **state)
{
    (void)state;
    static const char *const kernels[] = {
        "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)"
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels;
         i++) { /* ten of work; six moved, four of them beside it; five of a mark */
        trace_make m;
        session s;
        trace_make_open(&m, 1, 0);
        trace_make_task(&m, "kernel", "matmul", 7, 0, 10000000, 0);
        trace_make_task(&m, "kernel", kernels[i], 8, 6000000, 6000000, 0);
        trace_make_wait(&m, 7, 8, 12000000, 0, 0);
        trace_make_line(&m,
                        "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Sync\",\"pid\":0,\"tid\":7,"
                        "\"ts\":10000,\"dur\":5000,\"args\":{\"stream\":7}}");
        trace_make_analysed(&m, &s);
        const step *x = &s.analyses[0].steps[0];
        assert_int_equal(s.analyses[0].graph.count, 2); /* a mark is no work */
        assert_int_equal(x->comm_ns, 6000000);
        assert_int_equal(x->end - x->start, 12000000);
        session_free(&s);
        trace_make_free(&m);
    }
}

static void equal_events_are_two_and_the_longer_is_the_parent(void **state)
{
    (void)state;
    session s;
    analysed(
        "[" KERNEL("1", "2") "," KERNEL(
            "1",
            "2") ","
                 "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"draft\",\"pid\":1,\"tid\":1,\"ts\":5,"
                 "\"dur\":3},"
                 "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"step[TARGET_VERIFY "
                 "bs=1]\",\"pid\":1,\"tid\":1,"
                 "\"ts\":5,\"dur\":9},"
                 "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
                 "\"ts\":6,"
                 "\"dur\":1,\"args\":{\"correlation\":4}},"
                 "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":9,\"dur\":1,"
                 "\"args\":{\"correlation\":4}}]",
        &s);
    const task_graph *g = &s.analyses[0].graph;
    assert_int_equal(g->count, 3);
    assert_int_equal(g->tasks[2].phase, PHASE_DRAFT); /* the inner range */
    session_free(&s);
}

static void all_nodes_of_a_replay_belong_to_its_launch(void **state)
{
    (void)state;
    trace_make m;
    session s;
    trace_make_open(&m, 1, 0);
    for (int launch = 0; launch < 3; launch++) {
        int64_t at = launch * 1000000;
        trace_make_host(&m, "cuda_runtime", "cudaGraphLaunch", 7, at, 20000, 100 + launch);
        for (int k = 0; k < 50; k++)
            trace_make_task(&m, "kernel", "node", 1, at + 10000 + k * 5000, 4000, 100 + launch);
    }
    for (int k = 0; k < 5; k++) {
        trace_make_host(&m, "cuda_runtime", "cudaLaunchKernel", 7, 3000000 + k * 10000, 2000, 200 + k);
        trace_make_task(&m, "kernel", "eager", 1, 3005000 + k * 10000, 1000, 200 + k);
    }
    trace_make_task(&m, "kernel", "lost", 1, 3100000, 1000, 900);
    trace_make_task(&m, "kernel", "lost", 1, 3200000, 1000, 901);
    trace_make_host(&m, "cuda_runtime", "cudaGraphLaunch", 7, 3300000, 20000,
                    300); /* nothing of it is there */
    trace_make_analysed(&m, &s);
    const task_graph *g = &s.analyses[0].graph;
    assert_int_equal(g->replay_count, 3);
    size_t of_replay = 0, launched = 0;
    for (size_t i = 0; i < g->count; i++) {
        of_replay += g->tasks[i].replay != 0;
        launched += g->tasks[i].launch != 0;
    }
    assert_int_equal(of_replay, 150);
    assert_int_equal(launched, 155);
    assert_int_equal(first_part(&s)->faults[FAULT_NO_LINK], 2);
    assert_int_equal(first_part(&s)->faults[FAULT_LOST_REPLAY], 1);
    session_free(&s);
    trace_make_free(&m);
}

static void doubtful_correlations_are_counted_and_the_nearest_launch_is_taken(void **state)
{
    (void)state;
    trace_make m;
    session s;
    trace_make_open(&m, 1, 0);
    trace_make_host(&m, "cuda_runtime", "cudaLaunchKernel", 7, 1000, 500, 5);
    trace_make_host(&m, "cuda_runtime", "cudaLaunchKernel", 8, 50000, 500, 5);
    trace_make_task(&m, "kernel", "k", 1, 60000, 500, 5);
    trace_make_host(&m, "cuda_runtime", "cudaLaunchKernel", 7, 90000, 500, 6);
    trace_make_task(&m, "kernel", "early", 1, 80000, 500, 6);
    trace_make_task(&m, "kernel", "zero", 1, 99000, 500, 0);
    trace_make_analysed(&m, &s);
    const task_graph *g = &s.analyses[0].graph;
    assert_int_equal(store_event(&s.input.events, g->tasks[0].launch - 1)->start, 50000);
    assert_int_equal(first_part(&s)->faults[FAULT_SAME_LINK], 1);
    assert_int_equal(first_part(&s)->faults[FAULT_EARLY_TASK], 1);
    assert_int_equal(first_part(&s)->faults[FAULT_NO_LINK], 1);
    assert_int_equal(s.analyses[0].sums_wrong, 0);
    session_free(&s);
    trace_make_free(&m);
}

static void bad_rules_name_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "frobnicate x", "line 1" },
        { "# fine\nstage x", "line 2" },
        { "stage x nowhere\n", "phase" },
        { "step", "pattern" },
        { "step a b", "prefill" },
        { "host x", "words" },
        { "set", "name" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s;
        foray_error err;
        assert_int_equal(session_open("my.rules", cases[i].text, &s, &err), FORAY_EUSAGE);
        if (strstr(err.text, cases[i].says) == NULL || strstr(err.text, "my.rules") == NULL)
            fail_msg("'%s' gives: %s", cases[i].text, err.text);
    }
}

static void patterns_match_as_documented(void **state)
{
    (void)state;
    assert_true(names_match("step[DECODE*", "step[DECODE bs=32]"));
    assert_true(names_match("*a*b*", "xxaxxbxx"));
    assert_true(names_match("?b", "ab"));
    assert_true(names_match("*", ""));
    assert_false(names_match("draft", "draft_extend"));
    assert_false(names_match("*ab", "aba"));
    assert_false(names_match("?", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimal_text_becomes_the_nearest_nanosecond),
        cmocka_unit_test(digits_of_any_number_are_read_and_nothing_else),
        cmocka_unit_test(equal_times_in_any_spelling_are_equal),
        cmocka_unit_test(threads_are_told_apart_by_every_byte),
        cmocka_unit_test(events_whose_time_is_no_number_or_on_no_clock_are_counted),
        cmocka_unit_test(events_without_an_end_are_left_out),
        cmocka_unit_test(one_event_of_centuries_changes_nothing_else),
        cmocka_unit_test(begins_and_ends_pair_up_beside_complete_events),
        cmocka_unit_test(what_is_no_trace_is_refused_with_a_reason),
        cmocka_unit_test(a_trace_without_work_is_no_crash),
        cmocka_unit_test(a_file_cut_anywhere_keeps_its_whole_events),
        cmocka_unit_test(damage_inside_an_event_costs_that_event),
        cmocka_unit_test(odd_names_come_through),
        cmocka_unit_test(packed_files_are_read_whole_and_damage_is_told),
        cmocka_unit_test(overlapping_tasks_count_once_in_busy_and_fully_in_the_sum),
        cmocka_unit_test(collectives_old_and_new_are_communication_and_marks_are_no_work),
        cmocka_unit_test(equal_events_are_two_and_the_longer_is_the_parent),
        cmocka_unit_test(all_nodes_of_a_replay_belong_to_its_launch),
        cmocka_unit_test(doubtful_correlations_are_counted_and_the_nearest_launch_is_taken),
        cmocka_unit_test(bad_rules_name_their_line),
        cmocka_unit_test(patterns_match_as_documented),
    };
    return cmocka_run_group_tests_name("unit_timeline_read", tests, NULL, NULL);
}
