/* hf_folder.c: writes the few files that model_file_open asks of a folder. Does not write weights: its
 * safetensors file holds no tensor. Threads: one per folder.
 */
#include "support/hf_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = { "config.json", "model.safetensors", "tokenizer.json",
                                     "tokenizer_config.json", "generation_config.json" };

static void path_of(const char *folder, const char *name, char *out, size_t room)
{
    assert_true((size_t)snprintf(out, room, "%s/%s", folder, name) < room);
}

static void put(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[512];
    path_of(folder, name, path, sizeof path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

void hf_folder_write(const char *path, const char *tokenizer, size_t tokenizer_bytes,
                     const char *tokenizer_config, const char *generation_config)
{
    static const char no_tensors[] = "\2\0\0\0\0\0\0\0{}", config[] = "{\"model_type\":\"llama\"}";
    hf_folder_remove(path);
    assert_int_equal(mkdir(path, 0777), 0);
    put(path, "config.json", config, sizeof config - 1);
    put(path, "model.safetensors", no_tensors, sizeof no_tensors - 1);
    put(path, "tokenizer.json", tokenizer, tokenizer_bytes);
    if (tokenizer_config != NULL)
        put(path, "tokenizer_config.json", tokenizer_config, strlen(tokenizer_config));
    if (generation_config != NULL)
        put(path, "generation_config.json", generation_config, strlen(generation_config));
}

void hf_folder_remove(const char *path)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char file[512];
        path_of(path, names[i], file, sizeof file);
        (void)unlink(file);
    }
    (void)rmdir(path);
}
