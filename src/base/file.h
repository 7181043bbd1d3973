/* file.h: whole files, mapped, read or written. Threads: any, on different objects. */
#ifndef FORAY_BASE_FILE_H
#define FORAY_BASE_FILE_H

#include "base/buf.h"
#include "base/error.h"

/* A file mapped for reading. data stays valid until file_unmap. An empty file has size 0 and data != NULL. */
typedef struct {
    const uint8_t *data;
    size_t size;
    char *path; /* owned, for messages */
} file_map;

int file_map_open(const char *path, file_map *out, foray_error *err);
void file_unmap(file_map *f);

/* Gives the memory of what was read so far back to the system; the data stays valid and comes back when touched. */
void file_map_rest(const file_map *f);

/* Reads a small file whole (ELIMIT above max_bytes). *data is owned by the caller (mem_free, MEM_GENERAL,
 * *bytes + 1) and ends in a NUL that *bytes does not count. */
int file_read(const char *path, size_t max_bytes, char **data, size_t *bytes, foray_error *err);

/* A file being written: beside its place (PATH.partial), so that whoever opens PATH finds all of it or the
 * file of before. Pipes and devices are written directly. Bytes gather in memory and go out 64 KiB at a time, so
 * a killed process leaves a readable beginning behind. */
typedef struct {
    int fd;
    char *path, *partial; /* owned; partial NULL: written directly */
    buf pending;
} file_writer;

/* EFILE where the place cannot be written. On success end with file_commit or file_abandon. */
int file_create(const char *path, file_writer *out, foray_error *err);
/* Writes out what has gathered in pending (the caller appends there) once it is large, or always when `now`. */
int file_flush(file_writer *w, bool now, foray_error *err);
/* Writes the rest and puts the file in its place. On an error (a full disk) the partial file is removed. */
int file_commit(file_writer *w, foray_error *err);
void file_abandon(file_writer *w); /* removes the partial file */

bool file_is_folder(const char *path);
bool file_exists(const char *path);

#endif
