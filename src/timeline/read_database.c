/* read_database.c: SQLite exports of profilers into the store: Nsight Systems and Ascend.
 *
 * Tables that are missing are empty; columns are asked for by name, so versions may differ. Read-only, and immutable: no
 * journal is looked for beside the file. Threads: one at a time per store.
 */
#include <sqlite3.h>

#include "timeline/read.h"

int read_database(store *s, const char *path, foray_error *err)
{
    (void)s;
    return fail(err, FORAY_EUNSUPPORTED, "%s: databases are not read yet", path);
}
