/* nano.c: reads golden/nano_prompts.txt: "chat TEXT" or "text TEXT", one a line; "#" opens a comment. */
#include "support/nano.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"

#define PROMPTS FORAY_TESTS "/golden/nano_prompts.txt"

enum { FILE_LIMIT = 1 << 16, KIND = 5 };

const char *nano_folder(void)
{
    return FORAY_TESTS "/../models/nano";
}

nano_prompt nano_prompt_at(int i)
{
    char *data;
    size_t bytes;
    foray_error err;
    nano_prompt p = { 0 };
    if (file_read(PROMPTS, FILE_LIMIT, &data, &bytes, &err) != 0)
        fail_msg("%s", err.text);
    int seen = 0;
    for (char *line = data, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (*line == '#' || seen++ != i)
            continue;
        size_t n = (size_t)(end - line);
        p.chat = strncmp(line, "chat ", KIND) == 0;
        assert_true(p.chat || strncmp(line, "text ", KIND) == 0);
        assert_in_range(n, KIND + 1, KIND + NANO_PROMPT_ROOM - 1);
        memcpy(p.text, line + KIND, n - KIND);
    }
    assert_int_equal(seen, NANO_PROMPTS);
    mem_free(MEM_GENERAL, data, bytes + 1);
    return p;
}

int32_t *nano_prompt_ids(foray_engine *engine, int i, size_t *count)
{
    nano_prompt p = nano_prompt_at(i);
    foray_message request = { "user", p.text };
    int32_t *ids = NULL;
    foray_error err;
    /* The files ask for no begin-of-sentence in front of plain text, but the model was trained with it. */
    char text[NANO_PROMPT_ROOM + 32];
    snprintf(text, sizeof text, "<｜begin▁of▁sentence｜>%s", p.text);
    int rc = p.chat ? foray_encode_chat(engine, &request, 1, &ids, count, &err)
                    : foray_encode(engine, text, strlen(text), true, false, &ids, count, &err);
    if (rc != 0)
        fail_msg("%s", err.text);
    return ids;
}
