/* settings.c: one key at a time: found, of the right type, within bounds. Threads: one at a time per object. */
#include "model/settings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 160 };

static const char *full_key(const settings *s, const char *key, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s%s", s->prefix, key);
    return out;
}

void settings_fault(settings *s, int code, const char *key, const char *format, ...)
{
    char name[KEY_BYTES], text[256];
    va_list args;
    if (s->rc < 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->rc = fail(s->err, code, "%s: key %s: %s", model_file_path(s->f), full_key(s, key, name), text);
}

static void fault_type(settings *s, const char *key, const char *wanted)
{
    char name[KEY_BYTES];
    const char *type = model_file_key_type(s->f, full_key(s, key, name));
    if (type)
        settings_fault(s, FORAY_EFILE, key, "has type %s, expected %s", type, wanted);
    else
        settings_fault(s, FORAY_EFILE, key, "is missing (damaged or incomplete model?)");
}

bool settings_has(const settings *s, const char *key)
{
    char name[KEY_BYTES];
    return model_file_key_type(s->f, full_key(s, key, name)) != NULL;
}

/* One value per layer, all the same. */
static bool equal_elements(const model_file *f, const char *name, int64_t *out)
{
    size_t count = 0;
    if (!model_file_array(f, name, &count) || count == 0 || !model_file_array_int(f, name, 0, out))
        return false;
    for (size_t i = 1; i < count; i++) {
        int64_t other = 0;
        if (!model_file_array_int(f, name, i, &other) || other != *out)
            return false;
    }
    return true;
}

int64_t settings_int(settings *s, const char *key, int64_t low, int64_t high, int64_t fallback)
{
    char name[KEY_BYTES];
    int64_t n = 0;
    if (s->rc < 0 || (fallback != SETTING_REQUIRED && !settings_has(s, key)))
        return fallback;
    full_key(s, key, name);
    if (!model_file_int(s->f, name, &n) && !equal_elements(s->f, name, &n)) {
        fault_type(s, key, "a whole number, the same for every layer");
        return fallback;
    }
    if (n < low || n > high) {
        settings_fault(s, FORAY_EFILE, key, "is %" PRId64 "; %" PRId64 " to %" PRId64 " are possible", n, low,
                       high);
        return fallback;
    }
    return n;
}

double settings_float(settings *s, const char *key, double low, double high, double fallback)
{
    char name[KEY_BYTES];
    double x = 0;
    bool required = fallback != fallback;
    if (s->rc < 0 || (!required && !settings_has(s, key)))
        return fallback;
    if (!model_file_float(s->f, full_key(s, key, name), &x)) {
        fault_type(s, key, "a number");
        return fallback;
    }
    if (!(x >= low && x <= high)) { /* a NaN too */
        settings_fault(s, FORAY_EFILE, key, "is %g; %g to %g are possible", x, low, high);
        return fallback;
    }
    return x;
}

bool settings_bool(settings *s, const char *key, bool fallback)
{
    char name[KEY_BYTES];
    bool b = fallback;
    if (s->rc < 0 || !settings_has(s, key))
        return fallback;
    if (!model_file_bool(s->f, full_key(s, key, name), &b))
        fault_type(s, key, "true or false");
    return b;
}

void settings_text(settings *s, const char *key, char out[64])
{
    char name[KEY_BYTES];
    const char *text = "";
    size_t bytes = 0;
    out[0] = 0;
    if (s->rc < 0 || !settings_has(s, key))
        return;
    if (!model_file_string(s->f, full_key(s, key, name), &text, &bytes)) {
        fault_type(s, key, "text");
        return;
    }
    if (bytes > 63)
        bytes = 63;
    memcpy(out, text, bytes);
    out[bytes] = 0;
}
