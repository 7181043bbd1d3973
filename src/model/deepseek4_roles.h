/* deepseek4_roles.h: the table behind deepseek4_names.h: what every role is called in each kind of file, and its shape.
 *
 * Threads: any; no state.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_ROLES_H
#define FORAY_MODEL_DEEPSEEK4_ROLES_H

#include "model/deepseek4_names.h"

enum { V4_NAME_BYTES = 160 };

/* What becomes of a role: a matrix for weight_pack, rows to look up, f32 values, or token tables. */
typedef enum { V4_MATRIX, V4_ROWS, V4_FLOATS, V4_IDS } v4_form;

v4_form v4_role_form(v4_role role);

/* Whether the role belongs to the whole model, and not to each layer. */
bool v4_role_of_model(v4_role role);
/* Whether there is one for each routed expert. */
bool v4_role_of_expert(v4_role role);

/* The shape; returns its number of dimensions, 1 or 2 (shape[1] is 1 for vectors). */
int v4_role_shape(const deepseek4_config *c, v4_role role, int layer, int64_t shape[2]);

/* The ways to say a name, one after the other from 0 on; false past the last. Number 0 is the usual one. */
bool v4_role_name(const deepseek4_config *c, v4_role role, int layer, int expert, int way,
                  char out[V4_NAME_BYTES]);
/* The same for a tensor that holds several roles, or all experts: of the layer's first expert matrices gate and up
 * (two parts, one below the other) or down in folders, of each in GGUF files; of e_proj and h_proj side by side. */
bool v4_role_stack_name(const deepseek4_config *c, v4_role role, int layer, int way, char out[V4_NAME_BYTES]);

#endif
