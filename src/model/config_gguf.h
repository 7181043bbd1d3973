/* config_gguf.h: a model's configuration from the keys of a GGUF file. Threads: any. */
#ifndef FORAY_MODEL_CONFIG_GGUF_H
#define FORAY_MODEL_CONFIG_GGUF_H

#include "model/model_config.h"

/* Fills *c, which is zeroed, from f's keys; what follows from several fields is left to model_config_read. */
int config_gguf_read(const model_file *f, model_config *c, foray_error *err);

#endif
