/* foray.h: the one public header: open a model, hold requests, generate, hear what happened.
 *
 * An engine owns a model's weights, a device and its caches. A request is one text being continued;
 * several may be active, and foray_step advances all of them by one round. Everything that a request
 * delivers arrives in the foray_events that a step returns. Nothing here prints, exits or aborts.
 *
 * Threads: one thread at a time per engine. Strings are UTF-8; sizes are bytes unless said otherwise.
 * Errors: functions return 0 or a negative foray_code and fill the foray_error that was passed (which
 * may be NULL); on error the objects are as they were before the call.
 */
#ifndef FORAY_H
#define FORAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FORAY_OK = 0,
    FORAY_EUSAGE = -1,       /* a setting or an argument that cannot be */
    FORAY_EFILE = -2,        /* a file that is missing, unreadable or damaged */
    FORAY_EUNSUPPORTED = -3, /* well-formed, but not something foray can run */
    FORAY_ENOMEM = -4,       /* memory, pages or request slots have run out */
    FORAY_ELIMIT = -5,       /* beyond a stated limit (context, vocabulary, …) */
    FORAY_ESTATE = -6,       /* not now: the call does not fit the object's state */
    FORAY_ESYSTEM = -7,      /* the operating system refused */
} foray_code;

/* What went wrong, in one line: thing, place, remedy. */
typedef struct {
    int code;
    char text[504];
} foray_error;

/* Returns the name of a code, for example "EFILE". Never NULL. */
const char *foray_code_name(int code);

/* ---- engine ---------------------------------------------------------------------------------- */

typedef struct foray_engine foray_engine;

/* What the caller will have encoded. What the model's files lack for it is an error before the weights are read. */
typedef enum {
    FORAY_IDS,  /* nothing: it has token ids */
    FORAY_TEXT, /* plain text: needs a tokenizer */
    FORAY_CHAT, /* conversations: a chat format too */
} foray_input;

typedef struct {
    const char *model; /* GGUF file, Hugging Face folder, or a known name; required */
    int context;       /* tokens per request; 0: the model's own, bounded by memory */
    int max_requests;  /* active at once; 0: 1 */
    int threads;       /* 0: one per core */
    int prefill_chunk; /* prompt rows per pass; 0: 256 */
    const char *isa;   /* "portable", "avx2", "avx512"; NULL: the best that the machine has */
    const char *spec;  /* "auto", "off", "ngram", "nextn", "draft", "script"; NULL: auto */
    const char
        *draft_model;   /* a smaller model with the same vocabulary, for "draft"; named, "auto" is that */
    int spec_tokens;    /* most draft tokens per round; 0: the drafter's own */
    int spec_budget;    /* drafts to verify per request and round; 0: chosen by measured cost (auto) */
    const char *accept; /* which drafts stand: "coupled", "exact", "target"; NULL: coupled (docs/spec.md) */
    const char *
        verify; /* "ragged", "static": graphs of verify by rows or by requests; NULL: ragged (docs/spec.md) */
    const char *graph; /* "auto" or "off"; NULL: auto */
    const char
        *graph_phases;     /* which replay graphs: "decode,verify,draft,draft-extend" or fewer; NULL: all */
    int graph_memory;      /* MB for captured graphs; what does not fit runs eagerly; 0: 32 */
    int multi_stream_rows; /* most rows of passes whose branches run on streams of their own; 0: 64; -1: none */
    const char *chat_template; /* a name; NULL: that of the model's type or of its template */
    const char
        *thinking; /* "on", "off": whether replies open with reasoning; "auto", NULL: as the format has it */
    const char *act_quant; /* "model", NULL: round activations as the checkpoint expects it; "off" */
    foray_input input;     /* what will be encoded */
    bool record;           /* keep task times for foray_timeline_write */
    /* What the program was asked for, option_count names and values, copied into manifests. May be NULL. */
    const char *const *option_names, *const *option_values;
    size_t option_count;
    /* Called while a model loads, with done <= total, in bytes or whatever it does. May be NULL. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
} foray_config;

/* Opens a model and everything it needs. The strings of config are copied. On success *out is owned by the caller. */
int foray_open(const foray_config *config, foray_engine **out, foray_error *err);
void foray_close(foray_engine *engine);

typedef struct {
    const char *name;         /* general.name or the folder's */
    const char *architecture; /* for example "llama" */
    const char *isa;
    const char *chat_format; /* NULL: none recognised */
    bool reasons;       /* a reply to a conversation begins inside its reasoning, which ends at </think> */
    const char *spec;   /* the drafter in use: "off", "ngram", … */
    const char *accept; /* the rule in use: "coupled", … */
    const char *graphs; /* which phases replay captured graphs, and why others do not */
    int spec_tokens;    /* most drafts per request and round; 0: nobody drafts */
    int vocab, context, layers, threads;
    uint64_t weight_bytes, bytes_per_token, cache_bytes, graph_bytes;
    double products_per_token; /* multiply-adds in the matrices, the head left out */
} foray_info;

/* Strings belong to the engine and live as long as it does. */
foray_info foray_engine_info(const foray_engine *engine);

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct {
    const char *role;    /* "system", "user", "assistant" */
    const char *content; /* an assistant's may open with its reasoning: [<think>] … </think> */
} foray_message;

/* Encodes text. special: control tokens written in the text are recognised; begin: the model's
 * begin-of-text token is added where the model asks for it. *ids is owned by the caller: foray_free. */
int foray_encode(foray_engine *engine, const char *text, size_t bytes, bool special, bool begin,
                 int32_t **ids, size_t *count, foray_error *err);

/* Encodes a conversation with the model's chat format, ending where the assistant is to speak. Markers
 * inside a message are plain text. EUNSUPPORTED, naming the choices, where no format was recognised. */
int foray_encode_chat(foray_engine *engine, const foray_message *messages, size_t n, int32_t **ids,
                      size_t *count, foray_error *err);

/* Bytes of a token as it stands in running text; may be a part of a UTF-8 sequence. The engine's. */
const char *foray_token_bytes(foray_engine *engine, int32_t id, size_t *bytes);
void foray_free(void *p);

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct {
    float temperature;                                         /* 0: greedy */
    int top_k;                                                 /* 0: off */
    float top_p;                                               /* 1: off */
    float min_p;                                               /* 0: off */
    float repeat_penalty, presence_penalty, frequency_penalty; /* 1, 0, 0: off */
    uint64_t seed;
    const int32_t *bias_ids; /* [bias_count] copied at submission */
    const float *bias;
    size_t bias_count;
} foray_sampling;

/* The model's own defaults (generation_config), else greedy. */
foray_sampling foray_sampling_default(const foray_engine *engine);

typedef struct {
    const int32_t *prompt; /* [prompt_count], copied */
    size_t prompt_count;
    int max_tokens; /* 0 or less: until the end of text or of the context */
    int min_tokens; /* end-of-text is banned before that many */
    bool ignore_eos;
    const char *const *stop; /* [stop_count] strings, copied; empty ones are refused */
    size_t stop_count;
    const int32_t *stop_ids; /* [stop_id_count] further end-of-text ids, copied */
    size_t stop_id_count;
    foray_sampling sampling;
    int logprobs;          /* >= 0: deliver the chosen token's log-probability; -1: none */
    const int32_t *script; /* tests: what the `script` drafter proposes at each output position */
    size_t script_count;
} foray_request_config;

typedef int32_t foray_request; /* a handle; 0 is none */

/* Queues a request. EUSAGE and ELIMIT for what can never run; it starts in a later foray_step. */
int foray_submit(foray_engine *engine, const foray_request_config *config, foray_request *out,
                 foray_error *err);

/* Ends a request at once; its handle is dead afterwards. What it holds comes back with its last round in flight. */
void foray_release(foray_engine *engine, foray_request request);

typedef enum { FORAY_RUNNING, FORAY_STOP, FORAY_LENGTH, FORAY_FAILED } foray_finish;

/* What one step delivered to one request. Pointers live until the next foray_step or the request's release. */
typedef struct {
    foray_request request;
    const int32_t *tokens; /* [count] new ids that stand, in order */
    const float *logprobs; /* [count], or NULL */
    size_t count;
    const char *text; /* [text_bytes] whole UTF-8 characters, stop text held back */
    size_t text_bytes;
    foray_finish finish; /* FORAY_RUNNING: more will come */
    foray_error error;   /* with FORAY_FAILED */
} foray_event;

/* Advances every active request by one round (or one chunk of a prompt); the next round is under way when it returns.
 * *events is the engine's.
 * Returns the number of requests that still run or wait, or a negative code: then the events stand, the requests
 * go on with the next step, and what failed (writing the steps file) is no longer tried. */
int foray_step(foray_engine *engine, const foray_event **events, size_t *count, foray_error *err);

/* ---- accounts -------------------------------------------------------------------------------- */

enum { FORAY_PHASES = 14 };
const char *foray_phase_name(int phase); /* "prefill", "decode", … design.md §8 */

/* Where a request's time went. phases_ns sums to wall_ns exactly. */
typedef struct {
    int prompt_tokens, completion_tokens;
    int64_t wall_ns;               /* from admission to the last published token */
    int64_t prefill_ns, decode_ns; /* until the first token, and after it: they sum to wall_ns */
    int64_t phases_ns[FORAY_PHASES];
    int64_t steps, drafted, accepted; /* rounds; draft tokens verified; of those, accepted */
    int64_t net_saved_ns;             /* against plain decoding, from measured costs; may be negative */
    int64_t
        net_saved_error_ns; /* how far that may be off: as far as rounds lay from what was expected of them */
    int64_t plain_step_ns;  /* that measured plain step */
    uint64_t seed;
} foray_account;

int foray_request_account(const foray_engine *engine, foray_request request, foray_account *out,
                          foray_error *err);

/* Writes what the ring holds as a Chrome/Perfetto trace. */
int foray_timeline_write(foray_engine *engine, const char *path, foray_error *err);

/* From now on every step is appended as one JSON line (the first line is the manifest) to PATH.partial, which becomes
 * path when the engine closes; a pipe or device is written directly. */
int foray_steps_open(foray_engine *engine, const char *path, foray_error *err);

#ifdef __cplusplus
}
#endif
#endif
