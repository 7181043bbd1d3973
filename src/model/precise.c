/* precise.c: argument reduction by powers of two, then a power series long enough for double. Only + - * / and
 * integer operations, all exact or correctly rounded, so that the result is one number everywhere.
 * Threads: any; no state.
 */
#include "model/precise.h"

#include <stdint.h>
#include <string.h>

/* ln 2 in two parts: the first has 21 trailing zero bits, so that a small whole number times it is exact. */
static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double precise_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull); /* 1 <= m < 2 */
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent++;
    }
    /* ln m = 2 atanh s = 2 (s + s^3/3 + s^5/5 + …), |s| < 0.172: eleven terms reach 2^-60. */
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int n = 23; n >= 3; n -= 2)
        sum = (sum + 1.0 / n) * square;
    return exponent * LN2_HIGH + (exponent * LN2_LOW + (2 * s + 2 * s * sum));
}

double precise_exp(double x)
{
    int k = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double r = (x - k * LN2_HIGH) - k * LN2_LOW; /* |r| < 0.35: fifteen terms of the series reach 2^-60 */
    double sum = 0;
    for (int n = 15; n >= 1; n--)
        sum = (sum + 1) * r / n;
    return (1 + sum) * from_bits((uint64_t)(k + 1023) << 52);
}

double precise_pow(double base, double exponent)
{
    return precise_exp(exponent * precise_log(base));
}
