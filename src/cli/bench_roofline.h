/* bench_roofline.h: each kernel's time in plain decoding, against what the machine can do. */
#ifndef FORAY_CLI_BENCH_ROOFLINE_H
#define FORAY_CLI_BENCH_ROOFLINE_H

#include "base/buf.h"
#include "observe/ring.h"

/* Appends a table: per kernel calls and time per step, its share, bytes and operations per second and their share of
 * the peaks (bytes/s, operations/s; 0: not known). tasks [count]: as recorded; those of phase `decode` count. */
void bench_roofline(const task_record *tasks, size_t count, double peak_bytes, double peak_flops, buf *out);

#endif
