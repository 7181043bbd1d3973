/* from_json.c: a tokenizer from the tokenizer.json of a Hugging Face folder.
 *
 * So far it refuses: the reader follows. Threads: one.
 */
#include "text/tokenizer_impl.h"

int tokenizer_fill_from_json(tokenizer *t, const model_file *f, foray_error *err)
{
    (void)t;
    return fail(err, FORAY_EUNSUPPORTED, "%s: tokenizer.json cannot be read yet (use the model's GGUF file)",
                model_file_path(f));
}
