/* accept.c: the coupled rule. See accept.h. */
#include "spec/accept.h"

int accept_coupled(const int32_t *draft, const int32_t *target, int rows)
{
    int n = 0;
    while (n < rows - 1 && target[n] == draft[n])
        n++;
    return n;
}
