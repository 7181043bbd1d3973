/* nfc.h: Unicode's composed normal form, which some tokenizers ask for (Qwen's). Pure. Threads: any. */
#ifndef FORAY_TEXT_NFC_H
#define FORAY_TEXT_NFC_H

#include "base/buf.h"

/* False where text (valid UTF-8) surely is in the normal form already; cheap. */
bool nfc_may_change(const char *text, size_t bytes);

/* Appends the normal form of text (valid UTF-8) to out. Returns 0 or FORAY_ENOMEM. */
int nfc_append(const char *text, size_t bytes, buf *out);

#endif
