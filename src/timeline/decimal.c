/* decimal.c: decimal text to integers. */
#include "timeline/decimal.h"

#include <string.h>

typedef unsigned __int128 wide;

enum { MOST_DIGITS = 36, MOST_EXPONENT = 40 };

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* The value of eight digits at p, worked out side by side; false where they are not all digits. */
static inline bool eight_digits(const char *p, uint64_t *out)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    const uint64_t high = 0xf0f0f0f0f0f0f0f0, zeros = 0x3030303030303030;
    if ((x & high) != zeros || ((x + 0x0606060606060606) & high) != zeros)
        return false;
    x -= zeros;
    x = x * 10 + (x >> 8); /* pairs, in every other byte */
    *out = ((x & 0x000000ff000000ff) * (100 + (1000000ull << 32)) +
            (x >> 16 & 0x000000ff000000ff) * (1 + (10000ull << 32))) >>
           32;
    return true;
}

/* mantissa * 10^power, rounded; false beyond int64. */
static bool scale(wide mantissa, int power, bool negative, int64_t *out)
{
    for (; power > 0; power--) {
        if (mantissa > (wide)INT64_MAX)
            return false;
        mantissa *= 10;
    }
    if (power < -MOST_DIGITS - 1) {
        mantissa = 0;
    } else if (power < 0) {
        wide divisor = 1;
        for (int i = power; i < 0; i++)
            divisor *= 10;
        wide rest = mantissa % divisor;
        mantissa = mantissa / divisor + (rest >= divisor - rest);
    }
    if (mantissa > (wide)INT64_MAX)
        return false;
    *out = negative ? -(int64_t)mantissa : (int64_t)mantissa;
    return true;
}

/* What stands behind the fraction: nothing, or an exponent, which is added to *power. */
static bool take_exponent(const char *p, const char *end, int *power)
{
    if (p == end)
        return true;
    if ((*p != 'e' && *p != 'E') || ++p == end)
        return false;
    bool negative = *p == '-';
    if ((*p == '-' || *p == '+') && ++p == end)
        return false;
    int value = 0;
    for (; p < end && is_digit(*p); p++)
        value = value < 1000 ? value * 10 + (*p - '0') : value;
    if (p != end || (!negative && value > MOST_EXPONENT))
        return false;
    *power += negative ? -value : value;
    return true;
}

bool decimal_ns(const char *text, size_t bytes, int digits, int64_t *out)
{
    const char *p = text, *end = text + bytes;
    bool negative = p < end && *p == '-';
    p += negative;
    wide mantissa = 0;
    int power = digits, count = 0;
    const char *first = p;
    uint64_t head = 0; /* the usual number fits 18 digits: spare the wide arithmetic */
    for (uint64_t eight; count <= 8 && end - p >= 8 && eight_digits(p, &eight); p += 8, count += 8)
        head = head * 100000000 + eight;
    for (; p < end && is_digit(*p) && count < 18; p++, count++)
        head = head * 10 + (uint64_t)(*p - '0');
    if (count > 0 && (p == end || (*p == '.' && p + 1 < end))) {
        const char *dot = p == end ? end : ++p;
        for (; p < end && is_digit(*p) && count < 18; p++, count++)
            head = head * 10 + (uint64_t)(*p - '0');
        int fraction = (int)(p - dot);
        if (p == end && fraction <= digits) {
            for (int i = fraction; i < digits; i++) {
                if (head > INT64_MAX / 10)
                    return false;
                head *= 10;
            }
            *out = negative ? -(int64_t)head : (int64_t)head;
            return true;
        }
    }
    p = first;
    count = 0;
    for (; p < end && is_digit(*p); p++, count++)
        if (count < MOST_DIGITS)
            mantissa = mantissa * 10 + (unsigned)(*p - '0');
        else
            power++;
    if (count == 0)
        return false;
    if (p < end && *p == '.') {
        const char *dot = ++p;
        for (; p < end && is_digit(*p); p++, count++)
            if (count < MOST_DIGITS) {
                mantissa = mantissa * 10 + (unsigned)(*p - '0');
                power--;
            }
        if (p == dot)
            return false;
    }
    return take_exponent(p, end, &power) && scale(mantissa, power, negative, out);
}

bool decimal_whole(const char *text, size_t bytes, uint64_t *out)
{
    const char *p = text, *end = text + bytes;
    uint64_t value = 0;
    bool negative = p < end && *p == '-';
    p += negative;
    bool hex = end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    p += hex ? 2 : 0;
    if (p == end)
        return false;
    unsigned base = hex ? 16 : 10;
    for (; p < end; p++) {
        unsigned digit = is_digit(*p)                    ? (unsigned)(*p - '0')
                         : hex && *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                         : hex && *p >= 'A' && *p <= 'F' ? (unsigned)(*p - 'A' + 10)
                                                         : 16;
        if (digit >= base || value > (UINT64_MAX - digit) / base)
            return false;
        value = value * base + digit;
    }
    *out = negative ? 0 - value : value;
    return true;
}
