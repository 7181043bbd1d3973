/* file.c: opens, maps, reads and writes; every refusal of the system becomes a line with path and reason.
 *
 * A file that shrinks while it is mapped is not survived (SIGBUS): model files are taken to be at rest.
 * Threads: any, on different objects.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static const uint8_t EMPTY[1];

static int fail_path(foray_error *err, const char *path, const char *verb)
{
    char reason[128];
    return fail(err, FORAY_EFILE, "%s: %s: %s", path, verb, strerror_r(errno, reason, sizeof reason));
}

static char *copy_path(const char *path, const char *suffix)
{
    size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *copy = mem_alloc(MEM_GENERAL, bytes);
    if (copy != NULL)
        snprintf(copy, bytes, "%s%s", path, suffix);
    return copy;
}

static void free_path(char *path)
{
    if (path != NULL)
        mem_free(MEM_GENERAL, path, strlen(path) + 1);
}

/* Opens path for reading, refusing folders. Returns the descriptor or a code. */
static int open_for_reading(const char *path, struct stat *info, foray_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_path(err, path, "cannot open");
    if (fstat(fd, info) != 0) {
        fail_path(err, path, "cannot examine");
        close(fd);
        return FORAY_EFILE;
    }
    if (S_ISDIR(info->st_mode)) {
        close(fd);
        return fail(err, FORAY_EFILE, "%s: is a folder, not a file", path);
    }
    return fd;
}

int file_map_open(const char *path, file_map *out, foray_error *err)
{
    struct stat info;
    int code = FORAY_OK;
    file_map f = { .data = EMPTY };
    int fd = open_for_reading(path, &info, err);
    if (fd < 0)
        return fd;
    if (!S_ISREG(info.st_mode)) {
        code =
            fail(err, FORAY_EFILE, "%s: not a regular file, so it cannot be mapped (copy it to one)", path);
        goto done;
    }
    f.path = copy_path(path, "");
    if (f.path == NULL) {
        code = fail(err, FORAY_ENOMEM, "%s: out of memory", path);
        goto done;
    }
    if (info.st_size > 0) {
        f.size = (size_t)info.st_size;
        void *data = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            fail_path(err, path, "cannot map");
            code = FORAY_EFILE;
            free_path(f.path);
            goto done;
        }
        f.data = data;
    }
    *out = f;
done:
    close(fd);
    return code;
}

void file_map_rest(const file_map *f)
{
    if (f->size > 0)
        (void)madvise((void *)f->data, f->size, MADV_DONTNEED);
}

void file_unmap(file_map *f)
{
    if (f->size != 0)
        munmap((void *)f->data, f->size);
    free_path(f->path);
    *f = (file_map) { 0 };
}

int file_read(const char *path, size_t max_bytes, char **data, size_t *bytes, foray_error *err)
{
    struct stat info;
    int fd = open_for_reading(path, &info, err);
    if (fd < 0)
        return fd;
    int code = FORAY_OK;
    /* A pipe has size 0 and still delivers: the size is a first guess only. */
    size_t cap = (info.st_size > 0 && (uint64_t)info.st_size <= max_bytes ? (size_t)info.st_size : 4096) + 2;
    size_t len = 0;
    char *text = mem_alloc(MEM_GENERAL, cap);
    if (text == NULL) {
        code = fail(err, FORAY_ENOMEM, "%s: out of memory for %zu bytes", path, cap);
        goto done;
    }
    for (;;) {
        ssize_t got = read(fd, text + len, cap - len - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            code = fail_path(err, path, "cannot read");
            goto done;
        }
        len += (size_t)got;
        if (len > max_bytes) {
            code = fail(err, FORAY_ELIMIT, "%s: larger than %zu bytes, the most that is read of such a file",
                        path, max_bytes);
            goto done;
        }
        if (got == 0)
            break;
        if (cap - len > 1)
            continue;
        char *more = mem_resize(MEM_GENERAL, text, cap, cap * 2);
        if (more == NULL) {
            code = fail(err, FORAY_ENOMEM, "%s: out of memory for %zu bytes", path, cap * 2);
            goto done;
        }
        text = more;
        cap *= 2;
    }
    char *exact = mem_resize(MEM_GENERAL, text, cap, len + 1);
    if (exact == NULL) {
        code = fail(err, FORAY_ENOMEM, "%s: out of memory for %zu bytes", path, len + 1);
        goto done;
    }
    text = NULL;
    exact[len] = '\0';
    *data = exact;
    *bytes = len;
done:
    mem_free(MEM_GENERAL, text, cap);
    close(fd);
    return code;
}

/* ---- writing ---------------------------------------------------------------------------------- */

#ifdef FORAY_TORTURE
enum { FLUSH_BYTES = 16 };
#else
enum { FLUSH_BYTES = 64 << 10 };
#endif
static const char PARTIAL[] = ".partial";

int file_create(const char *path, file_writer *out, foray_error *err)
{
    struct stat info;
    bool direct = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    file_writer w = { .fd = -1,
                      .path = copy_path(path, ""),
                      .partial = direct ? NULL : copy_path(path, PARTIAL) };
    int code = FORAY_OK;
    if (w.path == NULL || (!direct && w.partial == NULL)) {
        code = fail(err, FORAY_ENOMEM, "%s: out of memory", path);
    } else {
        w.fd = open(direct ? path : w.partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (w.fd < 0)
            code = fail_path(err, path, "cannot write");
    }
    if (code != FORAY_OK) {
        free_path(w.path);
        free_path(w.partial);
        return code;
    }
    *out = w;
    return FORAY_OK;
}

int file_flush(file_writer *w, bool now, foray_error *err)
{
    if (w->pending.failed)
        return fail(err, FORAY_ENOMEM, "%s: out of memory while writing", w->path);
    if (!now && w->pending.len < FLUSH_BYTES)
        return FORAY_OK;
    for (size_t done = 0; done < w->pending.len;) {
        ssize_t count = write(w->fd, w->pending.data + done, w->pending.len - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_path(err, w->path, "cannot write");
        done += (size_t)count;
    }
    buf_clear(&w->pending);
    return FORAY_OK;
}

void file_abandon(file_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    if (w->partial != NULL)
        unlink(w->partial);
    free_path(w->path);
    free_path(w->partial);
    buf_free(&w->pending);
    *w = (file_writer) { .fd = -1 };
}

int file_commit(file_writer *w, foray_error *err)
{
    int code = file_flush(w, true, err);
    if (code == FORAY_OK) {
        int fd = w->fd;
        w->fd = -1;
        if (close(fd) != 0 || (w->partial != NULL && rename(w->partial, w->path) != 0))
            code = fail_path(err, w->path, "cannot write");
    }
    if (code == FORAY_OK) {
        free_path(w->partial);
        w->partial = NULL; /* it stands at its place: nothing to remove */
    }
    file_abandon(w);
    return code;
}

bool file_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}
