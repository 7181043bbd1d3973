/* budget_costs.c: what a round takes, by requests, rows and length of the texts. See budget.h.
 *
 *   column        1  2  3 … 12  14  16  20  24  32  40  48  64      rows; between two, a straight line
 *   crowd 0       ▒  ▒  ▒    ▒   ▒   ▒   …                          one request
 *   crowd c       ▒  ▒  ▒    ▒   …                                  up to 2^c requests
 *
 * One such table per depth. A depth that is new begins as a copy of the one before: texts grow.
 */
#include <string.h>

#include "spec/budget.h"

static const int COLUMN[BUDGET_COLUMNS] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                            11, 12, 14, 16, 20, 24, 32, 40, 48, 64 };
static const double LEVEL_RATE = .10, RATIO_RATE = .05;
static const double MOST_SURPRISE = 1.5;
enum { FIRST_DEPTH = 256, DEPTH_STEP = 4 };

int budget_crowd(int n)
{
    int c = 0;
    while (c + 1 < BUDGET_CROWDS && 1 << c < n)
        c++;
    return c;
}

/* The last column of at most so many rows; *part: how far to the next one, 0 … 1. */
static int column_of(int rows, double *part)
{
    int i = 0;
    while (i + 1 < BUDGET_COLUMNS && COLUMN[i + 1] <= rows)
        i++;
    *part = i + 1 < BUDGET_COLUMNS ? (double)(rows - COLUMN[i]) / (COLUMN[i + 1] - COLUMN[i]) : 0;
    return i;
}

static double ratio_of(const float *row, int rows)
{
    double part;
    int i = column_of(rows, &part);
    return row[i] + (part > 0 ? part * (row[i + 1] - row[i]) : 0);
}

double budget_ratio(const budget *b, int n, int rows)
{
    return ratio_of(b->ratio[b->depth][budget_crowd(n)], rows);
}

double budget_round_ns(const budget *b, int n, int rows)
{
    return b->one_row_ns * budget_ratio(b, n, rows);
}

double budget_cost_ns(const budget *b, int n)
{
    return budget_round_ns(b, n, n);
}

/* The measured cost at so many rows; beyond the last one it goes on as steeply as before it. */
static double measured(const int *rows, const double *ns, int count, int at)
{
    int i = 0;
    while (i + 2 < count && rows[i + 1] < at)
        i++;
    if (count == 1)
        return ns[0] * at / rows[0];
    return ns[i] + (ns[i + 1] - ns[i]) * (at - rows[i]) / (rows[i + 1] - rows[i]);
}

/* More rows are never cheaper: that was noise. */
static void make_monotonic(float *row)
{
    for (int i = 1; i < BUDGET_COLUMNS; i++)
        row[i] = row[i] < row[i - 1] ? row[i - 1] : row[i];
}

/* A crowd that was not measured: one request's rows, and what each further request adds to them. */
static void fill_crowd(budget *b, int crowd, double adds)
{
    float *row = b->ratio[0][crowd];
    for (int i = 0; i < BUDGET_COLUMNS; i++) {
        int requests = COLUMN[i] < 1 << crowd ? COLUMN[i] : 1 << crowd;
        row[i] = b->ratio[0][0][i] + (float)(adds * (requests - 1));
    }
    make_monotonic(row);
}

void budget_set_costs(budget *b, int n, const int *rows, const double *ns, int count)
{
    const int crowd = budget_crowd(n);
    float *row = b->ratio[0][crowd];
    if (n == 1) {
        b->one_row_ns = ns[0] > 1 ? ns[0] : 1;
        b->measured = true;
        b->crowds_set = 0;
    }
    const double alone = b->ratio[0][0][0] * ratio_of(b->ratio[0][0], n);
    const double adds = n > 1 ? (ns[0] / b->one_row_ns - alone) / (n - 1) : 0;
    fill_crowd(b, crowd, adds); /* what is below the first measured one */
    for (int i = 0; i < BUDGET_COLUMNS; i++)
        if (COLUMN[i] >= n)
            row[i] = (float)(measured(rows, ns, count, COLUMN[i]) / b->one_row_ns);
    make_monotonic(row);
    b->crowds_set |= 1u << crowd;
    for (int c = 1; c < BUDGET_CROWDS; c++)
        if (!(b->crowds_set >> c & 1))
            fill_crowd(b, c, adds);
    b->depth = 0;
    b->depths_known = 1;
}

void budget_set_context(budget *b, int tokens)
{
    int depth = 0;
    for (int least = FIRST_DEPTH; depth + 1 < BUDGET_DEPTHS && tokens >= least; least *= DEPTH_STEP)
        depth++;
    if (!(b->depths_known >> depth & 1)) {
        memcpy(b->ratio[depth], b->ratio[b->depth], sizeof b->ratio[depth]);
        b->depths_known |= 1u << depth;
    }
    b->depth = depth;
}

double budget_credible(double seen, double expected)
{
    double least = expected / MOST_SURPRISE, most = expected * MOST_SURPRISE;
    return seen < least ? least : seen > most ? most : seen;
}

static void learn(float *row, int rows, double surprise)
{
    double part;
    const int i = column_of(rows, &part);
    row[i] += (float)(RATIO_RATE * (1 - part) * surprise);
    row[i] = row[i] < 1 ? 1 : row[i];
    if (part > 0)
        row[i + 1] += (float)(RATIO_RATE * part * surprise);
}

void budget_observe_round(budget *b, int n, int rows, double ns)
{
    if (n < 1 || n > BUDGET_MAX_REQUESTS || rows < n || rows > BUDGET_MAX_ROWS || ns <= 0)
        return;
    if (!b->measured) {
        b->one_row_ns = ns / budget_ratio(b, n, rows);
        b->measured = true;
    }
    const int crowd = budget_crowd(n), kind = crowd * (BUDGET_MAX_ROWS + 1) + rows;
    const double ratio = budget_ratio(b, n, rows), seen = budget_credible(ns, ratio * b->one_row_ns);
    /* A ratio learns where the round before was of another kind: from rounds of one kind alone it could not be told from
     * the level, and both would wander. The plain round of a whole crowd is what its others are compared with. */
    if (kind != b->last_kind && rows != 1 << crowd)
        learn(b->ratio[b->depth][crowd], rows, seen / b->one_row_ns - ratio);
    b->last_kind = kind;
    const double off = seen / (ratio * b->one_row_ns) - 1;
    b->spread += LEVEL_RATE * ((off < 0 ? -off : off) - b->spread);
    b->one_row_ns += LEVEL_RATE * (seen / ratio - b->one_row_ns);
    b->plain_wait = rows > n ? b->plain_wait + 1 : 0;
    budget_settle(b, n, budget_ratio(b, n, rows));
}
