/* decimal.c: decimal text to integers. */
#include "timeline/decimal.h"

#include <string.h>

typedef unsigned __int128 wide;

enum { MOST_DIGITS = 36, MOST_EXPONENT = 40 };

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Eight bytes of text, the first one lowest. */
static inline uint64_t load_eight(const char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static const uint64_t ZEROS = 0x3030303030303030; /* eight of the digit */

/* The value of eight digits, worked out side by side; false where they are not all digits. */
static inline bool eight_digits(uint64_t x, uint64_t *out)
{
    const uint64_t high = 0xf0f0f0f0f0f0f0f0;
    if ((x & high) != ZEROS || ((x + 0x0606060606060606) & high) != ZEROS)
        return false;
    x -= ZEROS;
    x = x * 10 + (x >> 8); /* pairs, in every other byte */
    *out = ((x & 0x000000ff000000ff) * (100 + (1000000ull << 32)) +
            (x >> 16 & 0x000000ff000000ff) * (1 + (10000ull << 32))) >>
           32;
    return true;
}

/* The value of up to 16 bytes that are all digits; false where they are not. */
static inline bool plain_digits(const char *p, size_t bytes, uint64_t *out)
{
    uint64_t head = 0, tail = 0;
    if (bytes - 1 >= 16)
        return false;
    if (bytes < 8) {
        for (size_t i = 0; i < bytes; i++) {
            if (!is_digit(p[i]))
                return false;
            tail = tail * 10 + (uint64_t)(p[i] - '0');
        }
        *out = tail;
        return true;
    }
    /* what stands before the last eight, behind zeros */
    unsigned before = (unsigned)bytes - 8, shift = 64 - 8 * before;
    uint64_t x = before == 0   ? ZEROS
                 : before == 8 ? load_eight(p)
                               : load_eight(p) << shift | ZEROS >> 8 * before;
    if (!eight_digits(x, &head) || !eight_digits(load_eight(p + before), &tail))
        return false;
    *out = head * 100000000 + tail;
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
    static const int64_t powers[] = { 1, 10, 100, 1000, 10000, 100000, 1000000 };
    uint64_t plain;
    if (digits < (int)(sizeof powers / sizeof *powers) && plain_digits(text, bytes, &plain))
        return !__builtin_mul_overflow((int64_t)plain, powers[digits], out);
    const char *p = text, *end = text + bytes;
    bool negative = p < end && *p == '-';
    p += negative;
    wide mantissa = 0;
    int power = digits, count = 0;
    const char *first = p;
    uint64_t head = 0; /* most other numbers fit 18 digits: spare the wide arithmetic */
    for (uint64_t eight; count <= 8 && end - p >= 8 && eight_digits(load_eight(p), &eight);
         p += 8, count += 8)
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
    if (plain_digits(text, bytes, out))
        return true;
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
