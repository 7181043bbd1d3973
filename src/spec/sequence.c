/* sequence.c: appending what stands. See sequence.h. */
#include "spec/sequence.h"

static bool is_end(const sequence *s, int32_t id)
{
    for (int i = 0; i < s->end_count; i++)
        if (s->end_ids[i] == id)
            return true;
    return false;
}

int sequence_append(sequence *s, const int32_t *tokens, int count)
{
    int taken = 0;
    while (taken < count && s->finished == SEQUENCE_RUNS) {
        s->tokens[s->count++] = tokens[taken++];
        if (is_end(s, s->tokens[s->count - 1]))
            s->finished = SEQUENCE_END_ID;
        else if (s->count >= s->limit)
            s->finished = SEQUENCE_LENGTH;
    }
    return taken;
}
