/* hf_folder.h: Hugging Face folders without weights, written by tests that need a tokenizer alone. */
#ifndef TESTS_SUPPORT_HF_FOLDER_H
#define TESTS_SUPPORT_HF_FOLDER_H

#include <stddef.h>

/* Makes the folder with a config, no tensors, and the given files; tokenizer_config and generation_config may be
 * NULL. The test fails where the disk does. */
void hf_folder_write(const char *path, const char *tokenizer, size_t tokenizer_bytes,
                     const char *tokenizer_config, const char *generation_config);
/* Removes the folder again. */
void hf_folder_remove(const char *path);

#endif
