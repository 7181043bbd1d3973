/* model_path.h: where the model is that a user named.
 *
 *   a path that exists    that file or folder
 *   nano                  models/nano, which comes with foray: beside the program
 *   smollm2               $XDG_CACHE_HOME/foray/smollm2.gguf, where `foray model smollm2` puts it
 *   org/name              the Hugging Face cache: $HF_HUB_CACHE, else $HF_HOME/hub; what refs/main names
 *
 * Looks, and never downloads. Threads: any.
 */
#ifndef FORAY_CLI_MODEL_PATH_H
#define FORAY_CLI_MODEL_PATH_H

#include "base/buf.h"
#include "base/error.h"

/* The model of a command that was given none. */
#define MODEL_PATH_DEFAULT "smollm2"

/* Appends the path of the model called name. EFILE, saying where it was looked for, when there is none; *path
 * is then as it was. */
int model_path_find(const char *name, buf *path, foray_error *err);

/* The names that foray knows: NULL past the end. */
const char *model_path_known_at(size_t i);
bool model_path_known(const char *name);
/* True for a known name whose model comes with foray and need not be obtained. */
bool model_path_built_in(const char *name);
/* The known names, separated by ", ". */
const char *model_path_known_names(void);

#endif
