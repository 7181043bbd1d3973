/* model_config.c: reads through config_gguf or config_hf, then checks what must fit together, whatever the file said;
 * and the rotary frequencies, in double, rounded once.
 * Threads: any.
 */
#include "model/model_config.h"

#include <math.h>
#include <string.h>

#include "model/config_gguf.h"
#include "model/config_hf.h"
#include "model/precise.h"

static const char *const arch_names[MODEL_ARCH_COUNT] = {
    [MODEL_LLAMA] = "llama", [MODEL_MISTRAL] = "mistral", [MODEL_QWEN2] = "qwen2",
    [MODEL_QWEN3] = "qwen3", [MODEL_GEMMA3] = "gemma3",
};

static const double TWO_PI = 6.283185307179586;

const char *model_arch_name(model_arch arch)
{
    return arch_names[arch];
}

const char *model_arch_names(void)
{
    return "llama, mistral, qwen2, qwen3, gemma3";
}

/* Rotary frequencies ------------------------------------------------------------------------------ */

/* theta^(-2i/d): radians per position of pair i, unscaled. */
static double plain_frequency(const model_config *c, double theta, int i)
{
    return precise_pow(theta, -2.0 * i / c->rope_dim);
}

/* llama3: waves that turn often within the original context stay, those that turn rarely are stretched by the
 * factor, and in between the two are mixed. Rounded to f32, as GGUF files store them, so that both kinds of file
 * give the same frequencies. */
static void set_llama3_divisors(model_config *c)
{
    rope_scaling *r = &c->rope;
    for (int i = 0; i < c->rope_dim / 2; i++) {
        double turns = r->original_context * plain_frequency(c, c->rope_theta, i) / TWO_PI;
        if (turns > r->high_freq_factor) {
            r->pair[i] = 1;
        } else if (turns < r->low_freq_factor) {
            r->pair[i] = (float)r->factor;
        } else {
            double smooth = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
            r->pair[i] = (float)(1 / ((1 - smooth) / r->factor + smooth));
        }
    }
}

/* YaRN: the pair that turns `rotations` times within the original context, as a fraction of an index. */
static double yarn_pair(const model_config *c, double rotations)
{
    return c->rope_dim * precise_log(c->rope.original_context / (rotations * TWO_PI)) /
           (2 * precise_log(c->rope_theta));
}

/* YaRN's ramp: pairs up to *low are left alone, those from *high on are stretched. */
static void yarn_range(const model_config *c, double *low, double *high)
{
    *low = yarn_pair(c, c->rope.beta_fast);
    *high = yarn_pair(c, c->rope.beta_slow);
    if (c->rope.truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = *low < 0 ? 0 : *low;
    *high = *high > c->rope_dim - 1 ? c->rope_dim - 1 : *high;
    if (*high - *low < 0.001)
        *high = *low + 0.001;
}

static double scaled_frequency(const model_config *c, int i)
{
    double f = plain_frequency(c, c->rope_theta, i);
    switch (c->rope.kind) {
    case ROPE_PLAIN:
        break;
    case ROPE_LINEAR:
        return f / c->rope.factor;
    case ROPE_LLAMA3:
    case ROPE_FACTORS:
        return f / (double)c->rope.pair[i];
    case ROPE_YARN: {
        double low, high;
        yarn_range(c, &low, &high);
        double ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        return f / c->rope.factor * ramp + f * (1 - ramp);
    }
    }
    return f;
}

void model_rope_frequencies(const model_config *c, bool local, float *out, float *mscale)
{
    for (int i = 0; i < c->rope_dim / 2; i++)
        out[i] = (float)(local ? plain_frequency(c, c->rope_theta_local, i) : scaled_frequency(c, i));
    *mscale = local ? 1 : (float)c->rope.attention_factor;
}

/* What must fit together -------------------------------------------------------------------------- */

static int validate(const model_file *f, const model_config *c, foray_error *err)
{
    const char *path = model_file_path(f);
    if (c->head_dim < 1)
        return fail(err, FORAY_EFILE,
                    "%s: a width of %d does not divide into %d heads, and no size of heads is given", path,
                    c->dim, c->heads);
    if (c->head_dim % 2 != 0)
        return fail(err, FORAY_EUNSUPPORTED,
                    "%s: heads of %d dimensions; rotary positions need an even number", path, c->head_dim);
    if (c->heads % c->kv_heads != 0)
        return fail(err, FORAY_EFILE, "%s: %d attention heads do not divide into %d key-value heads", path,
                    c->heads, c->kv_heads);
    if (c->rope_dim < 2 || c->rope_dim > c->head_dim || c->rope_dim % 2 != 0)
        return fail(err, FORAY_EFILE,
                    "%s: %d of a head's %d dimensions are to be rotated; an even number of them can be", path,
                    c->rope_dim, c->head_dim);
    if (c->rope.kind == ROPE_YARN && c->rope.beta_fast < c->rope.beta_slow)
        return fail(err, FORAY_EFILE, "%s: YaRN's beta_fast is %g, below its beta_slow, %g", path,
                    c->rope.beta_fast, c->rope.beta_slow);
    if (c->rope.kind == ROPE_YARN && c->rope_theta <= 1)
        return fail(err, FORAY_EFILE, "%s: a rotary base of %g cannot be scaled by yarn", path,
                    c->rope_theta);
    return 0;
}

int model_config_read(const model_file *f, model_config *out, foray_error *err)
{
    model_config c;
    memset(&c, 0, sizeof c);
    c.kind = model_file_get_kind(f);
    int rc = c.kind == MODEL_FILE_GGUF ? config_gguf_read(f, &c, err) : config_hf_read(f, &c, err);
    if (rc == 0)
        rc = validate(f, &c, err);
    if (rc < 0)
        return rc;
    if (c.attention_scale == 0)
        c.attention_scale = (float)(1 / sqrt((double)c.head_dim));
    c.embedding_scale = c.arch == MODEL_GEMMA3 ? sqrtf((float)c.dim) : 1;
    if (c.rope.kind == ROPE_LLAMA3)
        set_llama3_divisors(&c);
    *out = c;
    return 0;
}
