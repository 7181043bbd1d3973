/* peaks.c: loops that do nothing but read, multiply and add, or meet. See peaks.h.
 *
 * Each instruction set's loops carry their own target attribute; they are only reached for a set the machine has.
 * Results are kept in memory, so that no loop can be left out by the compiler.
 */
#include "measure/peaks.h"

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/clock.h"
#include "base/mem.h"

enum { STREAMS = 4, STEPS = 1 << 23, BARRIERS = 2000, MAX_TEAM = 256 };

typedef struct {
    uint64_t value;
    uint64_t pad[7]; /* a cache line per thread */
} sink;

typedef uint64_t (*read_loop)(const uint8_t *p, size_t apart, size_t each); /* bytes between and of streams */
typedef uint64_t (*compute_loop)(int steps, double *operations);            /* operations: per step */

struct peaks {
    read_loop read;
    compute_loop fma, int8;
    uint8_t *data;
    size_t bytes;
    team *t;
    int threads; /* of the current measurement */
    int pieces;
    double *best; /* [pieces] seconds */
    compute_loop loop;
    double operations[MAX_TEAM];
    sink sinks[MAX_TEAM];
};

/* ---- portable ---- */

static uint64_t read_portable(const uint8_t *p, size_t apart, size_t each)
{
    uint64_t sum[STREAMS] = { 0 };
    for (size_t i = 0; i < each; i += 64)
        for (int s = 0; s < STREAMS; s++) {
            uint64_t line[8];
            memcpy(line, p + (size_t)s * apart + i, sizeof line);
            for (int j = 0; j < 8; j++)
                sum[s] ^= line[j];
        }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

static uint64_t fma_portable(int steps, double *operations)
{
    enum { CHAINS = 32 };
    float acc[CHAINS];
    volatile float seed = 0.9f;
    const float a = seed, b = seed / 8;
    for (int i = 0; i < CHAINS; i++)
        acc[i] = (float)i;
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = acc[i] * a + b;
    float sum = 0;
    for (int i = 0; i < CHAINS; i++)
        sum += acc[i];
    *operations = 2.0 * CHAINS;
    return (uint64_t)sum;
}

#if defined(__x86_64__)

/* ---- AVX2 ---- */

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static uint64_t fold_avx2(__m256i v)
{
    uint64_t word[4];
    _mm256_storeu_si256((__m256i *)word, v);
    return word[0] ^ word[1] ^ word[2] ^ word[3];
}

AVX2 static uint64_t read_avx2(const uint8_t *p, size_t apart, size_t each)
{
    __m256i a[STREAMS] = { 0 }, b[STREAMS] = { 0 };
    for (size_t i = 0; i < each; i += 64)
        for (int s = 0; s < STREAMS; s++) {
            const __m256i *line = (const __m256i *)(p + (size_t)s * apart + i);
            a[s] = _mm256_xor_si256(a[s], _mm256_loadu_si256(line));
            b[s] = _mm256_xor_si256(b[s], _mm256_loadu_si256(line + 1));
        }
    uint64_t sum = 0;
    for (int s = 0; s < STREAMS; s++)
        sum ^= fold_avx2(a[s]) ^ fold_avx2(b[s]);
    return sum;
}

AVX2 static uint64_t fma_avx2(int steps, double *operations)
{
    enum { CHAINS = 12 };
    __m256 acc[CHAINS];
    volatile float seed = 0.9f;
    const __m256 a = _mm256_set1_ps(seed), b = _mm256_set1_ps(seed / 8);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm256_set1_ps((float)i);
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    *operations = 2.0 * CHAINS * 8;
    return fold_avx2(_mm256_castps_si256(acc[0]));
}

AVX2 static uint64_t int8_avx2(int steps, double *operations)
{
    enum { CHAINS = 8 };
    __m256i acc[CHAINS] = { 0 }, one = _mm256_set1_epi16(1);
    volatile char seed = 3;
    __m256i a = _mm256_set1_epi8(seed);
    const __m256i b = _mm256_set1_epi8((char)(seed + 1));
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < CHAINS; i++) {
            __asm__ volatile("" : "+x"(a)); /* or one product would serve all chains */
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), one));
        }
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm256_add_epi32(acc[0], acc[i]);
    *operations = 2.0 * CHAINS * 32;
    return fold_avx2(acc[0]);
}

/* ---- AVX-512 ---- */

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

AVX512 static uint64_t read_avx512(const uint8_t *p, size_t apart, size_t each)
{
    __m512i a[STREAMS] = { 0 };
    for (size_t i = 0; i < each; i += 64)
        for (int s = 0; s < STREAMS; s++)
            a[s] = _mm512_xor_si512(a[s], _mm512_loadu_si512(p + (size_t)s * apart + i));
    const __m512i all = _mm512_xor_si512(_mm512_xor_si512(a[0], a[1]), _mm512_xor_si512(a[2], a[3]));
    return (uint64_t)_mm512_reduce_add_epi64(all);
}

AVX512 static uint64_t fma_avx512(int steps, double *operations)
{
    enum { CHAINS = 16 };
    __m512 acc[CHAINS];
    volatile float seed = 0.9f;
    const __m512 a = _mm512_set1_ps(seed), b = _mm512_set1_ps(seed / 8);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    *operations = 2.0 * CHAINS * 16;
    return (uint64_t)_mm512_reduce_add_ps(acc[0]);
}

AVX512 static uint64_t int8_avx512(int steps, double *operations)
{
    enum { CHAINS = 16 };
    __m512i acc[CHAINS];
    for (int i = 0; i < CHAINS; i++) /* unlike, or one chain would serve for all */
        acc[i] = _mm512_set1_epi32(i);
    volatile char seed = 3;
    const __m512i a = _mm512_set1_epi8(seed), b = _mm512_set1_epi8((char)(seed + 1));
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
    for (int i = 1; i < CHAINS; i++)
        acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    *operations = 2.0 * CHAINS * 64;
    return (uint64_t)_mm512_reduce_add_epi32(acc[0]);
}
#endif

/* ---- measurements ---- */

static void touch(void *user, int thread)
{
    peaks *p = user;
    const size_t share = p->bytes / (size_t)p->threads;
    memset(p->data + (size_t)thread * share, thread + 1, share);
}

int peaks_open(const char *isa, size_t bytes, team *t, peaks **out, foray_error *err)
{
    peaks *p = mem_alloc_zeroed(MEM_GENERAL, sizeof *p);
    const size_t unit = 64 * STREAMS * (size_t)team_threads(t);
    bytes = bytes ? bytes / unit * unit : ((size_t)512 << 20) / unit * unit;
    if (!p || !(p->data = mem_alloc(MEM_GENERAL, bytes))) {
        mem_free(MEM_GENERAL, p, sizeof *p);
        return fail(err, FORAY_ENOMEM, "peaks: no memory for %zu MiB to read", bytes >> 20);
    }
    p->bytes = bytes;
    p->t = t;
    p->read = read_portable;
    p->fma = fma_portable;
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0) {
        p->read = read_avx2;
        p->fma = fma_avx2;
        p->int8 = int8_avx2;
    } else if (strcmp(isa, "avx512") == 0) {
        p->read = read_avx512;
        p->fma = fma_avx512;
        p->int8 = int8_avx512;
    }
#else
    (void)isa;
#endif
    p->threads = team_threads(t);
    team_run(t, p->threads, touch, p);
    *out = p;
    return 0;
}

void peaks_close(peaks *p)
{
    if (!p)
        return;
    mem_free(MEM_GENERAL, p->data, p->bytes);
    mem_free(MEM_GENERAL, p, sizeof *p);
}

static double seconds_of(peaks *p, int threads, void (*f)(void *user, int thread))
{
    p->threads = threads < team_threads(p->t) ? threads : team_threads(p->t);
    const int64_t start = clock_ns();
    team_run(p->t, p->threads, f, p);
    const int64_t ns = clock_ns() - start;
    return (double)(ns > 0 ? ns : 1) * 1e-9;
}

/* Bytes of one stream of a thread, in one of `pieces` pieces. */
static size_t stream_bytes(const peaks *p, int pieces)
{
    return p->bytes / ((size_t)p->threads * STREAMS * (size_t)pieces) / 64 * 64;
}

/* A thread's four streams start a quarter of its share apart; `each` bytes of each, from `at`. */
static void read_streams(peaks *p, int thread, size_t at, size_t each)
{
    const size_t apart = stream_bytes(p, 1);
    const uint8_t *share = p->data + (size_t)thread * STREAMS * apart;
    p->sinks[thread].value ^= p->read(share + at, apart, each);
}

static void read_share(void *user, int thread)
{
    peaks *p = user;
    read_streams(p, thread, 0, stream_bytes(p, 1));
}

double peaks_read(peaks *p, int threads)
{
    const double seconds = seconds_of(p, threads, read_share);
    return (double)(stream_bytes(p, 1) * STREAMS * (size_t)p->threads) / seconds;
}

static void read_pieces(void *user, int thread)
{
    peaks *p = user;
    const size_t each = stream_bytes(p, p->pieces);
    for (int i = 0; i < p->pieces; i++) {
        team_barrier(p->t);
        const int64_t start = clock_fast_ns();
        read_streams(p, thread, (size_t)i * each, each);
        team_barrier(p->t);
        const double seconds = (double)(clock_fast_ns() - start) * 1e-9;
        if (thread == 0 && seconds < p->best[i])
            p->best[i] = seconds;
    }
}

void peaks_read_pieces(peaks *p, int threads, int pieces, double *best)
{
    p->pieces = pieces;
    p->best = best;
    seconds_of(p, threads, read_pieces);
}

static void compute(void *user, int thread)
{
    peaks *p = user;
    p->sinks[thread].value ^= p->loop(STEPS, &p->operations[thread]);
}

static double compute_rate(peaks *p, int threads, compute_loop loop)
{
    if (!loop)
        return 0;
    p->loop = loop;
    const double seconds = seconds_of(p, threads, compute);
    return STEPS * p->operations[0] * p->threads / seconds;
}

double peaks_fma(peaks *p, int threads)
{
    return compute_rate(p, threads, p->fma);
}

double peaks_int8(peaks *p, int threads)
{
    return compute_rate(p, threads, p->int8);
}

static void meet(void *user, int thread)
{
    peaks *p = user;
    (void)thread;
    for (int i = 0; i < BARRIERS; i++)
        team_barrier(p->t);
}

double peaks_barrier_ns(peaks *p, int threads)
{
    return seconds_of(p, threads, meet) * 1e9 / BARRIERS;
}
