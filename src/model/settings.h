/* settings.h: typed, bounded reading of a model file's keys, with errors that name key, type and value.
 *
 * The first fault is kept in rc and err; every later call returns its fallback, so that a reader asks for all it
 * wants and checks once. Threads: one at a time per object.
 */
#ifndef FORAY_MODEL_SETTINGS_H
#define FORAY_MODEL_SETTINGS_H

#include "format/model_file.h"

typedef struct {
    const model_file *f;
    const char *prefix; /* put in front of every key: "llama.", "rope_scaling.", "" */
    foray_error *err;
    int rc; /* 0, or the code of the first fault */
} settings;

#define SETTING_REQUIRED INT64_MIN /* as fallback: absent is a fault */

/* The value of key where it is there; fallback where it is absent or null; a fault outside low … high or of another
 * type. A GGUF array (one value per layer) counts as its value when all are equal. */
int64_t settings_int(settings *s, const char *key, int64_t low, int64_t high, int64_t fallback);
/* The same for numbers; fallback NaN: required. low and high are allowed. */
double settings_float(settings *s, const char *key, double low, double high, double fallback);
bool settings_bool(settings *s, const char *key, bool fallback);
/* Copies at most 63 bytes; "" where it is absent. */
void settings_text(settings *s, const char *key, char out[64]);
bool settings_has(const settings *s, const char *key);

/* Notes a fault about a key: "path: key K: <text>". Does nothing when there was one already. */
void settings_fault(settings *s, int code, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
