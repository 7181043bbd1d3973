/* beside.h: files that come with the program: beside the installed binary, or in the tree it was built in.
 * Threads: any.
 */
#ifndef FORAY_CLI_BESIDE_H
#define FORAY_CLI_BESIDE_H

#include "base/buf.h"
#include "base/error.h"

/* Appends the path of a file or folder that comes with foray: name under ../share/foray of the binary's folder, else
 * under the top of the source tree, two folders up from build/PRESET. EFILE: in neither; *path is then as it was. */
int beside_find(const char *name, buf *path, foray_error *err);

#endif
