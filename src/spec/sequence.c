/* sequence.c: what stands, and growing by it. See sequence.h. */
#include "spec/sequence.h"

#include <string.h>

static bool is_end(const sequence *s, int32_t id)
{
    for (int i = 0; i < s->end_count; i++)
        if (s->end_ids[i] == id)
            return true;
    return false;
}

int sequence_takes(const sequence *s, const int32_t *tokens, int count, sequence_finish *finish)
{
    int taken = 0;
    *finish = SEQUENCE_RUNS;
    while (taken < count && *finish == SEQUENCE_RUNS) {
        if (is_end(s, tokens[taken++]))
            *finish = SEQUENCE_END_ID;
        else if (s->count + taken >= s->limit)
            *finish = SEQUENCE_LENGTH;
    }
    return taken;
}

void sequence_grow(sequence *s, const int32_t *tokens, int taken, sequence_finish finish)
{
    memcpy(s->tokens + s->count, tokens, sizeof *tokens * (size_t)taken);
    s->count += taken;
    s->computed = s->count - 1;
    s->finished = finish;
}
