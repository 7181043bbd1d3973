/* source.c: reads a file, unpacking it on a second thread where it is compressed.
 *
 *     file ─▶ unpacker thread ─▶ ring of BLOCKS blocks ─▶ source_read
 *
 * The ring is guarded by one mutex; a block belongs to the unpacker while it is filled and to the reader afterwards.
 * Damage is written into `problem` before the last block is handed over, so the reader sees it after the bytes.
 */
#include "timeline/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "timeline/unpack.h"

#ifdef FORAY_TORTURE
enum { BLOCK_BYTES = 61, BLOCKS = 2, INPUT_BYTES = 37 };
#else
enum { BLOCK_BYTES = 512 << 10, BLOCKS = 4, INPUT_BYTES = 128 << 10 };
#endif
enum { MAGIC_BYTES = 4 };

typedef struct {
    char *data; /* [BLOCK_BYTES] */
    size_t bytes, taken;
} block;

struct source {
    char *name; /* owned */
    int fd;     /* -1: memory */
    const char *memory;
    size_t memory_bytes, memory_at;
    uint64_t packed_bytes, read_bytes; /* size on disk; read from it so far */
    source_kind kind;
    char magic[MAGIC_BYTES]; /* the first bytes, which were read to recognise the kind */
    size_t magic_bytes, magic_taken;
    char problem[160];

    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    block blocks[BLOCKS];
    unsigned filled, emptied; /* blocks handed over and given back, ever */
    bool ended, stop;
};

/* ---- raw bytes -------------------------------------------------------------------------------- */

/* Up to room bytes as they lie in the file; 0 at the end or on an error, which is put into problem. */
static size_t read_raw(source *s, char *out, size_t room)
{
    if (s->magic_taken < s->magic_bytes) {
        size_t n = s->magic_bytes - s->magic_taken < room ? s->magic_bytes - s->magic_taken : room;
        memcpy(out, s->magic + s->magic_taken, n);
        s->magic_taken += n;
        return n;
    }
    if (s->fd < 0) {
        size_t n = s->memory_bytes - s->memory_at < room ? s->memory_bytes - s->memory_at : room;
        memcpy(out, s->memory + s->memory_at, n);
        s->memory_at += n;
        s->read_bytes += n;
        return n;
    }
    for (;;) {
        ssize_t n = read(s->fd, out, room);
        if (n >= 0) {
            s->read_bytes += (uint64_t)n;
            return (size_t)n;
        }
        if (errno != EINTR) {
            char reason[64];
            snprintf(s->problem, sizeof s->problem, "reading failed at byte %" PRIu64 ": %s", s->read_bytes,
                     strerror_r(errno, reason, sizeof reason));
            return 0;
        }
    }
}

/* ---- unpacking -------------------------------------------------------------------------------- */

/* Waits for a free block; NULL when the reader has gone away. */
static block *take_free(source *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->filled - s->emptied == BLOCKS && !s->stop)
        pthread_cond_wait(&s->changed, &s->lock);
    block *b = s->stop ? NULL : &s->blocks[s->filled % BLOCKS];
    pthread_mutex_unlock(&s->lock);
    if (b != NULL)
        b->bytes = b->taken = 0;
    return b;
}

static void hand_over(source *s)
{
    pthread_mutex_lock(&s->lock);
    s->filled++;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* NULL: this build leaves the packing out. */
static const unpack_format *format_of(source_kind kind)
{
#ifdef FORAY_ZLIB
    if (kind == SOURCE_GZIP)
        return &unpack_gzip;
#endif
#ifdef FORAY_ZSTD
    if (kind == SOURCE_ZSTD)
        return &unpack_zstd;
#endif
    (void)kind;
    return NULL;
}

static void *unpack_all(void *user)
{
    source *s = user;
    const unpack_format *format = format_of(s->kind);
    unpack_input u = { .data = mem_alloc(MEM_RECORDS, INPUT_BYTES) };
    void *state = format->open();
    if (u.data == NULL || state == NULL)
        u.fault = "no memory to unpack";
    bool more = true;
    while (more && u.fault == NULL) {
        block *b = take_free(s);
        if (b == NULL)
            break;
        while (b->bytes < BLOCK_BYTES && more && u.fault == NULL) {
            if (u.at == u.bytes) {
                u.bytes = read_raw(s, u.data, INPUT_BYTES);
                u.at = 0;
                more = u.bytes > 0;
            }
            /* Also without new input: the unpacker may hold bytes back. */
            size_t got = format->some(state, &u, b->data + b->bytes, BLOCK_BYTES - b->bytes);
            b->bytes += got;
            if (!more && got > 0)
                more = true;
        }
        if (b->bytes > 0)
            hand_over(s);
    }
    bool cut = u.fault == NULL && u.inside && s->problem[0] == '\0' && s->read_bytes > 0;
    pthread_mutex_lock(&s->lock);
    if (cut)
        snprintf(s->problem, sizeof s->problem, "the %s data is cut short near byte %" PRIu64 " of the file",
                 format->name, s->read_bytes - (u.bytes - u.at));
    else if (u.fault != NULL && u.fault[0] != '\0')
        snprintf(s->problem, sizeof s->problem, "%s near byte %" PRIu64 " of the file", u.fault,
                 s->read_bytes - (u.bytes - u.at));
    s->ended = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (state != NULL)
        format->close(state);
    mem_free(MEM_RECORDS, u.data, INPUT_BYTES);
    return NULL;
}

static size_t read_unpacked(source *s, char *out, size_t room)
{
    pthread_mutex_lock(&s->lock);
    while (s->filled == s->emptied && !s->ended)
        pthread_cond_wait(&s->changed, &s->lock);
    block *b = s->filled != s->emptied ? &s->blocks[s->emptied % BLOCKS] : NULL;
    pthread_mutex_unlock(&s->lock);
    if (b == NULL)
        return 0;
    size_t n = b->bytes - b->taken < room ? b->bytes - b->taken : room;
    memcpy(out, b->data + b->taken, n);
    b->taken += n;
    if (b->taken == b->bytes) {
        pthread_mutex_lock(&s->lock);
        s->emptied++;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return n;
}

/* ---- opening ---------------------------------------------------------------------------------- */

static void recognise(source *s)
{
    char magic[MAGIC_BYTES] = { 0 };
    size_t got = 0;
    for (size_t n; got < MAGIC_BYTES && (n = read_raw(s, magic + got, MAGIC_BYTES - got)) > 0;)
        got += n;
    memcpy(s->magic, magic, got);
    s->magic_bytes = got;
    if (got >= 2 && (unsigned char)magic[0] == 0x1f && (unsigned char)magic[1] == 0x8b)
        s->kind = SOURCE_GZIP;
    else if (got == 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
        s->kind = SOURCE_ZSTD;
}

static int start(source *s, source **out, foray_error *err)
{
    recognise(s);
    int rc = FORAY_OK;
    if (s->kind != SOURCE_PLAIN && format_of(s->kind) == NULL) {
        const char *name = s->kind == SOURCE_GZIP ? "gzip" : "zstd";
        rc = fail(err, FORAY_EUNSUPPORTED, "%s: %s data, which this build leaves out (unpack it with %s -d)",
                  s->name, name, name);
        s->kind = SOURCE_PLAIN; /* nothing was opened for it */
    } else if (s->kind != SOURCE_PLAIN) {
        for (int i = 0; i < BLOCKS && rc == FORAY_OK; i++) {
            s->blocks[i].data = mem_alloc(MEM_RECORDS, BLOCK_BYTES);
            if (s->blocks[i].data == NULL)
                rc = fail(err, FORAY_ENOMEM, "%s: no memory to unpack", s->name);
        }
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        s->threaded = rc == FORAY_OK && pthread_create(&s->thread, NULL, unpack_all, s) == 0;
        if (rc == FORAY_OK && !s->threaded)
            rc = fail(err, FORAY_ESYSTEM, "%s: no thread to unpack with", s->name);
    }
    if (rc != FORAY_OK) {
        source_close(s);
        return rc;
    }
    *out = s;
    return FORAY_OK;
}

static source *allocate(const char *name, foray_error *err)
{
    source *s = mem_alloc_zeroed(MEM_RECORDS, sizeof *s);
    size_t bytes = strlen(name) + 1;
    if (s != NULL) {
        s->fd = -1;
        s->name = mem_alloc(MEM_RECORDS, bytes);
        if (s->name != NULL) {
            memcpy(s->name, name, bytes);
            return s;
        }
        mem_free(MEM_RECORDS, s, sizeof *s);
    }
    fail(err, FORAY_ENOMEM, "%s: out of memory", name);
    return NULL;
}

int source_open(const char *path, source **out, foray_error *err)
{
    struct stat info;
    source *s = allocate(path, err);
    if (s == NULL)
        return FORAY_ENOMEM;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &info) != 0 || S_ISDIR(info.st_mode)) {
        char reason[128];
        int rc = fail(err, FORAY_EFILE, "%s: cannot open: %s", path,
                      s->fd >= 0 ? "is a folder" : strerror_r(errno, reason, sizeof reason));
        source_close(s);
        return rc;
    }
    s->packed_bytes = info.st_size > 0 ? (uint64_t)info.st_size : 0;
    return start(s, out, err);
}

int source_memory(const char *name, const void *data, size_t bytes, source **out, foray_error *err)
{
    source *s = allocate(name, err);
    if (s == NULL)
        return FORAY_ENOMEM;
    s->memory = data;
    s->memory_bytes = bytes;
    s->packed_bytes = bytes;
    return start(s, out, err);
}

source *source_open_again(const source *s, uint64_t offset)
{
    source *again;
    foray_error err;
    if (s->kind != SOURCE_PLAIN || s->fd < 0 || source_open(s->name, &again, &err) != FORAY_OK)
        return NULL;
    if (again->kind == SOURCE_PLAIN && source_seek(again, offset))
        return again;
    source_close(again);
    return NULL;
}

bool source_seek(source *s, uint64_t offset)
{
    if (s->kind != SOURCE_PLAIN || s->fd < 0 || lseek(s->fd, (off_t)offset, SEEK_SET) != (off_t)offset)
        return false;
    s->magic_taken = s->magic_bytes;
    s->read_bytes = offset;
    return true;
}

void source_close(source *s)
{
    if (s == NULL)
        return;
    if (s->threaded) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    if (s->kind != SOURCE_PLAIN) {
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->changed);
        for (int i = 0; i < BLOCKS; i++)
            mem_free(MEM_RECORDS, s->blocks[i].data, BLOCK_BYTES);
    }
    if (s->fd >= 0)
        close(s->fd);
    mem_free(MEM_RECORDS, s->name, strlen(s->name) + 1);
    mem_free(MEM_RECORDS, s, sizeof *s);
}

size_t source_read(source *s, char *out, size_t room)
{
    return s->threaded ? read_unpacked(s, out, room) : read_raw(s, out, room);
}

const char *source_name(const source *s)
{
    return s->name;
}

source_kind source_packing(const source *s)
{
    return s->kind;
}

uint64_t source_packed_bytes(const source *s)
{
    return s->packed_bytes;
}

const char *source_problem(const source *s)
{
    return s->problem;
}
