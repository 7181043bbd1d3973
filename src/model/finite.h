/* finite.h: weights that are infinite or no numbers, looked for while a model loads: everything they touch would be no
 * number either, and the text nonsense.
 *
 * Reads what packing reads next. Threads: any; no state.
 */
#ifndef FORAY_MODEL_FINITE_H
#define FORAY_MODEL_FINITE_H

#include "format/model_file.h"
#include "kernel/weight.h"

/* Values and scales of a matrix that lies in the file. EFILE names the tensor and the place. */
int finite_check_matrix(const model_file *f, const weight_source *s, foray_error *err);

/* Values that were read from the tensor of that name. */
int finite_check_floats(const model_file *f, const char *name, const float *x, size_t n, foray_error *err);

#endif
