/* file.h: whole files, mapped or read. Threads: any, on different objects. */
#ifndef FORAY_BASE_FILE_H
#define FORAY_BASE_FILE_H

#include "base/error.h"

/* A file mapped for reading. data stays valid until file_unmap. An empty file has size 0 and data != NULL. */
typedef struct {
    const uint8_t *data;
    size_t size;
    char *path; /* owned, for messages */
} file_map;

int file_map_open(const char *path, file_map *out, foray_error *err);
void file_unmap(file_map *f);

/* Reads a small file whole (ELIMIT above max_bytes). *data is owned by the caller (mem_free, MEM_GENERAL,
 * *bytes + 1) and ends in a NUL that *bytes does not count. */
int file_read(const char *path, size_t max_bytes, char **data, size_t *bytes, foray_error *err);

bool file_is_folder(const char *path);
bool file_exists(const char *path);

#endif
