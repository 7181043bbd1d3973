/* budget_costs.c: what a round takes, by requests, rows and length of the texts. See budget.h.
 *
 *   column        1  2  3 … 12  14  16  20  24  32  40  48  64      rows; between two, a straight line
 *   crowd 0       1  ▒  ▒    ▒   ▒   ▒   …                          one request
 *   crowd 2       ▒  ▒  ▒    1   …                                  up to four: 1 is the plain round of four
 *
 * One such table of ratios per depth; a depth that is new begins as a copy of the one before, for texts grow. Beside it the
 * time of each crowd's plain round.
 *
 * A round that takes longer than expected says that the machine is slower, or that its kind costs more: the surprise is
 * shared out by how uncertain each of the two is. The machine is known from plain rounds alone, and less with every round
 * since the last one. Kinds of about as many rows learn together. Of a model with experts, a round is first brought to the
 * number of distinct experts that its rows usually have.
 */
#include <string.h>

#include "kernel/ref/vmath.h"
#include "spec/budget.h"

static const int COLUMN[BUDGET_COLUMNS] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                            11, 12, 14, 16, 20, 24, 32, 40, 48, 64 };
/* Variances of logarithms: of one round; of what was measured at start, for kinds and for plain rounds; the least that a kind is
 * ever known to; and by how much the machine changes from one round to the next. */
static const double NOISE = .05 * .05, AT_START = .10 * .10, PLAIN_AT_START = .04 * .04, KNOWN = .02 * .02,
                    DRIFT = .01 * .01;
static const double SPREAD_RATE = .10, EXPERT_RATE = .02;
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

static double at_rows(const float *row, int rows)
{
    double part;
    int i = column_of(rows, &part);
    return row[i] + (part > 0 ? part * (row[i + 1] - row[i]) : 0);
}

double budget_ratio(const budget *b, int n, int rows)
{
    return at_rows(b->ratio[b->depth][budget_crowd(n)], rows);
}

double budget_round_ns(const budget *b, int n, int rows)
{
    return b->plain_ns[budget_crowd(n)] * budget_ratio(b, n, rows);
}

double budget_cost_ns(const budget *b, int n)
{
    return budget_round_ns(b, n, n);
}

/* The measured time at so many rows; beyond the last one it goes on as steeply as before it. */
static double measured(const int *rows, const double *ns, int count, int at)
{
    int i = 0;
    while (i + 2 < count && rows[i + 1] < at)
        i++;
    if (count == 1)
        return ns[0] * at / rows[0];
    return ns[i] + (ns[i + 1] - ns[i]) * (at - rows[i]) / (rows[i + 1] - rows[i]);
}

/* Times by column become a crowd's table. More rows are never cheaper: that was noise. */
static void set_crowd(budget *b, int crowd, double *ns)
{
    int whole = 0;
    for (int i = 1; i < BUDGET_COLUMNS; i++)
        ns[i] = ns[i] < ns[i - 1] ? ns[i - 1] : ns[i];
    while (COLUMN[whole] < 1 << crowd)
        whole++;
    b->plain_ns[crowd] = ns[whole] > 1 ? ns[whole] : 1;
    b->plain_doubt[crowd] = (float)PLAIN_AT_START;
    for (int i = 0; i < BUDGET_COLUMNS; i++) {
        b->ratio[0][crowd][i] = (float)(ns[i] / b->plain_ns[crowd]);
        b->doubt[crowd][i] = i == whole ? 0 : (float)AT_START;
    }
}

/* Times of a crowd that was not measured: one request's rows, and what each further request adds to them. */
static void follow(const budget *b, int crowd, double adds, double *ns)
{
    for (int i = 0; i < BUDGET_COLUMNS; i++) {
        int requests = COLUMN[i] < 1 << crowd ? COLUMN[i] : 1 << crowd;
        ns[i] = b->plain_ns[0] * (double)b->ratio[0][0][i] + adds * (requests - 1);
    }
}

void budget_set_costs(budget *b, int n, const int *rows, const double *ns, int count)
{
    const int crowd = budget_crowd(n);
    double by_column[BUDGET_COLUMNS], adds = 0;
    b->depth = 0;
    b->depths_known = 1;
    if (n == 1) {
        b->measured = true;
        b->crowds_set = 0;
    } else {
        adds = (ns[0] - b->plain_ns[0] * at_rows(b->ratio[0][0], n)) / (n - 1);
        follow(b, crowd, adds, by_column); /* what is below the first measured one */
    }
    for (int i = 0; i < BUDGET_COLUMNS; i++)
        if (COLUMN[i] >= n)
            by_column[i] = measured(rows, ns, count, COLUMN[i]);
    set_crowd(b, crowd, by_column);
    b->crowds_set |= 1u << crowd;
    for (int c = 1; c < BUDGET_CROWDS; c++)
        if (!(b->crowds_set >> c & 1)) {
            follow(b, c, adds, by_column);
            set_crowd(b, c, by_column);
        }
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

/* How much a column learns from a round of so many rows: all of it at those, nothing at half or twice as many. */
static double nearness(int column, int rows)
{
    const int more = column > rows ? column : rows, fewer = column > rows ? rows : column;
    return more < 2 * fewer ? 2 - (double)more / fewer : 0;
}

/* The kind of n requests and so many rows cost `surprise` more, in logarithms, than expected; doubt: of the machine and of
 * the round. */
static void learn(budget *b, int n, int rows, double surprise, double doubt)
{
    const int crowd = budget_crowd(n);
    float *ratio = b->ratio[b->depth][crowd], *own = b->doubt[crowd];
    for (int i = 0; i < BUDGET_COLUMNS; i++) {
        const double share = own[i] / (own[i] + doubt) * nearness(COLUMN[i], rows);
        const bool plain = COLUMN[i] <= 1 << crowd; /* a number of requests that decode */
        if (share == 0 || plain != (rows <= 1 << crowd))
            continue;
        ratio[i] *= vmath_exp((float)(share * surprise));
        own[i] *= (float)(1 - share);
        own[i] = own[i] > KNOWN ? own[i] : (float)KNOWN;
    }
    for (int i = 1; i < BUDGET_COLUMNS; i++)
        ratio[i] = ratio[i] < ratio[i - 1] ? ratio[i - 1] : ratio[i];
}

/* The part of a round's time that goes with its distinct experts. */
static double expert_share(const budget *b)
{
    const double slope = b->expert_spread > 1e-6 ? b->expert_slope / b->expert_spread : 0;
    return slope < 0 ? 0 : slope < 1 ? slope : 1;
}

/* What the round would have taken with as many distinct experts as its rows usually have. How many there are the router decides,
 * behind every choice: it is no property of the rows, and no news of the machine. */
static double at_usual_experts(budget *b, int rows, int experts, double ns, double expected)
{
    double part;
    float *usual = &b->usual_experts[column_of(rows, &part)];
    if (experts <= 0)
        return ns;
    if (*usual == 0)
        *usual = (float)experts;
    double more = experts / (double)*usual - 1, late = budget_credible(ns, expected) / expected - 1;
    more = more < -.5 ? -.5 : more > 1 ? 1 : more;
    b->expert_slope += EXPERT_RATE * (more * late - b->expert_slope);
    b->expert_spread += EXPERT_RATE * (more * more - b->expert_spread);
    *usual += (float)(EXPERT_RATE * (experts - (double)*usual));
    return ns / (1 + expert_share(b) * more);
}

void budget_observe_round(budget *b, int n, int rows, int experts, double ns)
{
    if (n < 1 || n > BUDGET_MAX_REQUESTS || rows < n || rows > BUDGET_MAX_ROWS || ns <= 0)
        return;
    const int crowd = budget_crowd(n);
    if (!b->measured) {
        for (int c = 0; c < BUDGET_CROWDS; c++)
            b->plain_ns[c] *= ns / budget_round_ns(b, n, rows);
        b->measured = true;
    }
    const double expected = budget_round_ns(b, n, rows);
    ns = at_usual_experts(b, rows, experts, ns, expected);
    const double surprise = (double)vmath_log((float)(budget_credible(ns, expected) / expected));
    const double off = budget_credible(ns, expected) / expected - 1;
    b->spread += SPREAD_RATE * ((off < 0 ? -off : off) - b->spread);
    const double machine = b->plain_doubt[crowd], kind = at_rows(b->doubt[crowd], rows);
    learn(b, n, rows, surprise, machine + NOISE);
    const double share = machine / (machine + kind + NOISE);
    b->plain_ns[crowd] *= (double)vmath_exp((float)(share * surprise));
    if (rows == n)
        b->plain_doubt[crowd] *= (float)(1 - share);
    for (int c = 0; c < BUDGET_CROWDS; c++) {
        const double more = b->plain_doubt[c] + DRIFT;
        b->plain_doubt[c] = (float)(more < AT_START ? more : AT_START);
    }
    b->plain_wait = rows > n ? b->plain_wait + 1 : 0;
    budget_settle(b, n, budget_ratio(b, n, rows));
}
