/* accept.c: rules and what stands. See accept.h. */
#include "spec/accept.h"

#include <string.h>

int accept_rule_named(const char *name, accept_rule *out, foray_error *err)
{
    static const char *const names[] = { "coupled", "exact", "target" };
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (accept_rule)i;
            return 0;
        }
    return fail(err, FORAY_EUSAGE, "--accept %s: no such rule (coupled, exact, target)", name);
}

int accept_drafts(const int32_t *draft, const int32_t *token, int rows)
{
    int n = 0;
    while (n < rows - 1 && token[n] == draft[n])
        n++;
    return n;
}
