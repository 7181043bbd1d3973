/* utf8.c: the well-formed sequences are those of the Unicode standard's table 3-7: the lead byte fixes
 * the length and the range of the second byte; every further byte is 80 … BF. Reads only bytes[0 … count-1].
 */
#include "base/utf8.h"

int utf8_read(const char *bytes, size_t count, uint32_t *point)
{
    const uint8_t *p = (const uint8_t *)bytes;
    uint8_t lead = p[0], low = 0x80, high = 0xbf;
    int length;
    if (lead < 0x80) {
        *point = lead;
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
        *point = lead & 0x1fu;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        *point = lead & 0x0fu;
        if (lead == 0xe0)
            low = 0xa0; /* below it: overlong */
        if (lead == 0xed)
            high = 0x9f; /* above it: surrogates */
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        *point = lead & 0x07u;
        if (lead == 0xf0)
            low = 0x90; /* below it: overlong */
        if (lead == 0xf4)
            high = 0x8f; /* above it: beyond U+10FFFF */
    } else {
        return -1;
    }
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= count || p[i] < low || p[i] > high)
            return -i;
        *point = *point << 6 | (p[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

int utf8_write(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}
