/* chain.h: models whose text is chosen beforehand, and models that always tie. For tests.
 *
 * A chain's attention and FFN add nothing and its output matrix is its embedding with rows exchanged, so that each
 * token says which one comes next. A twin model has every row of the output matrix twice, as ids 2i and 2i + 1.
 */
#ifndef FORAY_TESTS_CHAIN_H
#define FORAY_TESTS_CHAIN_H

#include <stdint.h>

/* A model that says ids[0], ids[1], … ids[n - 1], ids[0], … (all different, 0 … 511) after the prompt { ids[n - 1] },
 * greedily; with the tokenizer of tiny_text.h. The path is static like tiny_path's. */
const char *chain_gguf(const int32_t *ids, int n);

/* The ids of a text, byte by byte. Returns how many. */
int chain_bytes(const char *text, int32_t *ids);

/* A wandering model with an exact tie at the top of every row of logits. */
const char *twins_gguf(void);

#endif
