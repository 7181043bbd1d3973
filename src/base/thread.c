/* thread.c: how many processors may be used: the affinity mask, cut by the CPU quota of the control groups
 * (v2: the process's own group and every one above it; v1: the root of the cpu controller).
 */
#include "base/thread.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static int affinity_cores(void)
{
    /* The kernel refuses a mask smaller than its own: try larger ones. */
    for (int cpus = 1024; cpus <= 1 << 16; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* The first line of a small file, without its line end; false: none. */
static bool read_line(const char *path, char *line, int bytes)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool ok = fgets(line, bytes, f) != NULL;
    fclose(f);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

static int fewer(int cores, double quota, double period)
{
    if (!(quota > 0) || !(period > 0) || quota / period >= cores)
        return cores;
    int whole = (int)(quota / period);
    if (whole * period < quota)
        whole++;
    return whole > 0 ? whole : 1;
}

/* cpu.max of a v2 group: "max 100000" or "150000 100000". */
static int quota_of_group(const char *group, int cores)
{
    char path[PATH_BYTES], line[128], *rest;
    if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group) >= (int)sizeof path ||
        !read_line(path, line, sizeof line))
        return cores;
    double quota = strtod(line, &rest);
    return rest == line ? cores : fewer(cores, quota, strtod(rest, NULL));
}

static int quota_v2(int cores)
{
    char line[PATH_BYTES - 64];
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (f == NULL)
        return cores;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        char *group = line + 3;
        group[strcspn(group, "\n")] = '\0';
        for (;;) {
            cores = quota_of_group(group, cores);
            char *slash = strrchr(group, '/');
            if (slash == NULL || *group == '\0')
                break;
            *slash = '\0';
        }
    }
    fclose(f);
    return cores;
}

static int quota_v1(int cores)
{
    char quota[64], period[64];
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return cores;
    return fewer(cores, strtod(quota, NULL), strtod(period, NULL));
}

int thread_cores(void)
{
    return quota_v1(quota_v2(affinity_cores()));
}
