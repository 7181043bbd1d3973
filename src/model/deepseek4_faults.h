/* deepseek4_faults.h: a list of what is wrong with a file, told in one error.
 *
 * Keeps the text of the first faults and counts the rest, so that a file of a hundred thousand wrong tensors costs no
 * more than one. Allocates nothing. Threads: one at a time per list.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_FAULTS_H
#define FORAY_MODEL_DEEPSEEK4_FAULTS_H

#include "base/error.h"

enum { FAULTS_KEPT = 6, FAULT_BYTES = 224, FAULTS_MISSING_BYTES = 288 };

/* Start from {0}. */
typedef struct {
    char missing[FAULTS_MISSING_BYTES]; /* names, separated by ", " */
    char wrong[FAULTS_KEPT][FAULT_BYTES];
    int missing_count, missing_shown, wrong_count;
    int unsupported; /* of the wrong ones: not damage, but something that foray does not run */
} fault_list;

/* Adds the name of something that is not there. */
void faults_missing(fault_list *l, const char *name);
/* Adds something that is wrong, as a short sentence. code: FORAY_EFILE or FORAY_EUNSUPPORTED. */
void faults_wrong(fault_list *l, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Returns 0 where there is nothing; else the error "path: what: missing a, b; first; second; and N more (remedy)":
 * EUNSUPPORTED where every fault is of that kind, else EFILE. */
int faults_report(const fault_list *l, const char *path, const char *what, const char *remedy,
                  foray_error *err);

#endif
