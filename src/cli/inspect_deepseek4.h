/* inspect_deepseek4.h: what `foray inspect` says of a model of the DeepSeek-V4 family. Threads: any. */
#ifndef FORAY_CLI_INSPECT_DEEPSEEK4_H
#define FORAY_CLI_INSPECT_DEEPSEEK4_H

#include "base/buf.h"
#include "model/deepseek4_config.h"

/* Appends lines that go on behind "config     ". */
void inspect_deepseek4_put(const deepseek4_config *c, buf *out);
/* Appends a JSON object. */
void inspect_deepseek4_json(const deepseek4_config *c, buf *out);

/* Bytes of matrices in the file that a plain decode step of the trunk reads: of the routed experts only as many as a token
 * chooses. The tensors have passed v4_names_check. */
uint64_t inspect_deepseek4_step_bytes(const model_file *f, const deepseek4_config *c);

#endif
