/* config_hf.h: a model's configuration from config.json and its companions. Threads: any. */
#ifndef FORAY_MODEL_CONFIG_HF_H
#define FORAY_MODEL_CONFIG_HF_H

#include "model/model_config.h"

/* Fills *c, which is zeroed, from f's keys; what follows from several fields is left to model_config_read. */
int config_hf_read(const model_file *f, model_config *c, foray_error *err);

#endif
