/* deepseek4_look.h: what the names and types of a file's tensors say that no key can be trusted with: which drafter there
 * is, where the trunk ends, how many layers route by token id, in which formats the weights stand.
 *
 * One pass over the list of tensors; reads no data. Threads: any.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_LOOK_H
#define FORAY_MODEL_DEEPSEEK4_LOOK_H

#include "model/deepseek4_config.h"

typedef struct {
    int layers;     /* of the trunk: one more than the highest number in front of the drafter; 0: none */
    int drafter_at; /* number of the drafter's first layer where it is counted with the trunk's; -1: it is not */
    int hash_layers; /* layers of the trunk with a table of experts by token id */
    deepseek4_drafter drafter;
    int stages; /* layers of the drafter */
    bool fp8, int8;
    dtype experts; /* type of the routed experts' tensors; DTYPE_UNKNOWN: there are none */
    bool compressed[MODEL_MAX_LAYERS + 1]; /* [layers] the layer has tensors that only ratios above 0 need */
} deepseek4_contents;

/* Looks at all tensors. */
deepseek4_contents deepseek4_look(const model_file *f);

/* Takes the layer's number off a tensor's name; drafter: it counts the drafter's layers (`mtp.0.…`), not the trunk's.
 * false: not a tensor of a layer. */
bool deepseek4_name_layer(const char *name, int *number, bool *drafter);

#endif
