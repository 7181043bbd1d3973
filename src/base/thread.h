/* thread.h: the little that foray needs of the machine's processors beyond pthreads. */
#ifndef FORAY_BASE_THREAD_H
#define FORAY_BASE_THREAD_H

/* Processors that this process may use (affinity and cgroup quota heeded), at least 1. */
int thread_cores(void);

/* One pause of a spin loop. */
static inline void thread_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
