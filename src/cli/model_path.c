/* model_path.c: paths, known names (beside the program, or in foray's cache) and the Hugging Face cache, in this order.
 *
 * A snapshot of the Hugging Face cache is a folder of links into blobs/; foray reads it as any folder. A snapshot
 * without config.json that holds exactly one GGUF file stands for that file.
 */
#include "cli/model_path.h"

#include <ctype.h>
#include <dirent.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/options.h"
#include "cli/beside.h"

enum { REF_BYTES = 256 };

static const struct {
    const char *name;
    const char *folder; /* comes with foray, there; NULL: has to be obtained */
} known[] = { { MODEL_PATH_DEFAULT, NULL }, { "nano", "models/nano" } };

enum { KNOWN = sizeof known / sizeof known[0] };

static size_t find_known(const char *name)
{
    size_t i = 0;
    while (i < KNOWN && strcmp(known[i].name, name) != 0)
        i++;
    return i;
}

const char *model_path_known_at(size_t i)
{
    return i < KNOWN ? known[i].name : NULL;
}

bool model_path_known(const char *name)
{
    return find_known(name) < KNOWN;
}

bool model_path_built_in(const char *name)
{
    size_t i = find_known(name);
    return i < KNOWN && known[i].folder;
}

const char *model_path_known_names(void)
{
    return MODEL_PATH_DEFAULT ", nano";
}

/* Appends $XDG_CACHE_HOME, or ~/.cache (a relative value is not heeded, as the XDG specification wants it). */
static void cache_folder(buf *out)
{
    const char *cache = options_environment("XDG_CACHE_HOME");
    if (cache && cache[0] == '/') {
        buf_puts(out, cache);
        return;
    }
    const char *home = options_environment("HOME");
    const struct passwd *user = home ? NULL : getpwuid(getuid());
    buf_printf(out, "%s/.cache", home ? home : user ? user->pw_dir : "");
}

static void hub_folder(buf *out)
{
    const char *hub = options_environment("HF_HUB_CACHE");
    const char *home = options_environment("HF_HOME");
    if (hub) {
        buf_puts(out, hub);
    } else if (home) {
        buf_printf(out, "%s/hub", home);
    } else {
        cache_folder(out);
        buf_puts(out, "/huggingface/hub");
    }
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* folder has no config.json: appends its only GGUF file, if there is just one. */
static int only_gguf(buf *folder, foray_error *err)
{
    DIR *entries = opendir(folder->data);
    if (!entries)
        return fail(err, FORAY_EFILE, "%s: cannot be read", folder->data);
    buf found = { 0 };
    int count = 0;
    for (const struct dirent *e; (e = readdir(entries));) {
        if (!ends_in(e->d_name, ".gguf"))
            continue;
        count++;
        buf_clear(&found);
        buf_puts(&found, e->d_name);
    }
    closedir(entries);
    int rc = 0;
    if (count == 1)
        buf_printf(folder, "/%s", found.data);
    else
        rc = fail(err, FORAY_EFILE, "%s: no config.json, and %s GGUF files (name one by its path)",
                  folder->data, count == 0 ? "no" : "several");
    buf_free(&found);
    return rc;
}

/* org/name with one slash and nothing that could leave the cache. */
static bool is_repository(const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || name[0] == '.')
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_./", *c))
            return false;
    return !ends_in(name, ".gguf");
}

/* The commit that a ref names, in place: its trailing white space is cut. */
static bool trim_commit(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        text[--n] = 0;
    for (size_t i = 0; i < n; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return n > 0;
}

/* Appends the snapshot of org/name that refs/main names. */
static int in_hub(const char *name, buf *path, foray_error *err)
{
    buf folder = { 0 }, file = { 0 };
    char *commit = NULL;
    size_t commit_bytes = 0;
    int rc;
    hub_folder(&folder);
    buf_puts(&folder, "/models--");
    for (const char *c = name; *c; c++)
        buf_append(&folder, *c == '/' ? "--" : c, *c == '/' ? 2 : 1);
    buf_printf(&file, "%s/refs/main", folder.data);
    if (folder.failed || file.failed) {
        rc = fail(err, FORAY_ENOMEM, "%s: out of memory", name);
        goto done;
    }
    if (!file_is_folder(folder.data)) {
        rc = fail(err, FORAY_EFILE, "%s: no such file or folder, and not in the Hugging Face cache (%s)",
                  name, folder.data);
        goto done;
    }
    if ((rc = file_read(file.data, REF_BYTES, &commit, &commit_bytes, err)))
        goto done;
    if (!trim_commit(commit)) {
        rc = fail(err, FORAY_EFILE, "%s: does not name a commit", file.data);
        goto done;
    }
    buf_printf(&folder, "/snapshots/%s", commit);
    buf_clear(&file);
    buf_printf(&file, "%s/config.json", folder.data);
    if (!file_is_folder(folder.data))
        rc = fail(err, FORAY_EFILE, "%s: the snapshot that refs/main names is missing (incomplete download?)",
                  folder.data);
    else if (!file_exists(file.data))
        rc = only_gguf(&folder, err);
    if (!rc)
        buf_append(path, folder.data, folder.len);
done:
    mem_free(MEM_GENERAL, commit, commit ? commit_bytes + 1 : 0);
    buf_free(&file);
    buf_free(&folder);
    return rc;
}

static int in_cache(const char *name, buf *path, foray_error *err)
{
    buf file = { 0 };
    int rc = 0;
    cache_folder(&file);
    buf_printf(&file, "/foray/%s.gguf", name);
    if (file.failed)
        rc = fail(err, FORAY_ENOMEM, "%s: out of memory", name);
    else if (!file_exists(file.data))
        rc = fail(err, FORAY_EFILE, "%s: not obtained yet (`foray model %s` puts it at %s)", name, name,
                  file.data);
    else
        buf_append(path, file.data, file.len);
    buf_free(&file);
    return rc;
}

int model_path_find(const char *name, buf *path, foray_error *err)
{
    int rc = 0;
    if (file_exists(name) || file_is_folder(name))
        buf_puts(path, name);
    else if (model_path_built_in(name))
        rc = beside_find(known[find_known(name)].folder, path, err);
    else if (model_path_known(name))
        rc = in_cache(name, path, err);
    else if (is_repository(name))
        rc = in_hub(name, path, err);
    else
        rc = fail(err, FORAY_EFILE, "%s: no such file or folder (known names: %s)", name,
                  model_path_known_names());
    if (!rc && path->failed)
        rc = fail(err, FORAY_ENOMEM, "%s: out of memory", name);
    return rc;
}
