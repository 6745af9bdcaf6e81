/*
 * Reads from an NBD server as fast as one connection does, by libnbd: the client that most people
 * have. `foreread nbd-load` takes the same arguments, and batches.
 *
 *   cc -O2 -o nbd_load nbd_load.c -lnbd
 *   nbd_load URI PATTERN DEPTH SECONDS AMOUNT_MIB [PART PARTS]
 *
 * PATTERN   rand4k seq4k seq64k seq1m inter2 inter2-64k, and sum: all of it once, in order
 * DEPTH     so many requests under way
 * PART      reads this part only, of PARTS; streams stay in it
 *
 * Prints one line of JSON. Ends with 1 if anything was wrong, the bytes of `sum` apart: those are
 * for the caller to compare.
 */
#include <inttypes.h>
#include <libnbd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_DEPTH 128

struct pattern {
    const char *name;
    size_t block;
    int streams; /* 0: anywhere */
};

static const struct pattern patterns[] = {
    { "rand4k", 4096, 0 },      { "seq4k", 4096, 1 },        { "seq64k", 65536, 1 },
    { "seq1m", 1 << 20, 1 },    { "inter2", 4096, 2 },       { "inter2-64k", 65536, 2 },
    { "sum", 1 << 20, 1 },
};

struct slot {
    double began;
    unsigned char *buffer;
    uint64_t number;
};

static struct slot slots[MOST_DEPTH];
static int idle[MOST_DEPTH], idle_count;
static float *took_us;
static uint64_t ended, room_for;
static int failed, sums;
static size_t block;
static uint64_t sum;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* A sum of all words, each turned by its place: it does not matter in which order blocks come. */
static uint64_t sum_of(const unsigned char *bytes, size_t len, uint64_t offset)
{
    uint64_t all = 0;
    for (size_t at = 0; at + 8 <= len; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        all += (word ^ (offset + at)) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return all;
}

static int done(void *data, int *error)
{
    int number = (int)(intptr_t)data;
    struct slot *slot = &slots[number];
    if (*error) {
        fprintf(stderr, "a read fails: %s\n", strerror(*error));
        failed = 1;
    }
    if (ended < room_for)
        took_us[ended] = (now() - slot->began) * 1e6;
    ended++;
    if (sums)
        sum += sum_of(slot->buffer, block, slot->number * block);
    idle[idle_count++] = number;
    return 1;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int nbd_failed(void)
{
    fprintf(stderr, "%s\n", nbd_get_error());
    return 1;
}

int main(int count, char **args)
{
    if (count != 6 && count != 8) {
        fprintf(stderr, "nbd_load URI PATTERN DEPTH SECONDS AMOUNT_MIB [PART PARTS]\n");
        return 2;
    }
    const struct pattern *pattern = NULL;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!strcmp(args[2], patterns[i].name))
            pattern = &patterns[i];
    int depth = atoi(args[3]);
    double seconds = atof(args[4]);
    uint64_t amount = strtoull(args[5], NULL, 10) << 20;
    uint64_t part = count == 8 ? strtoull(args[6], NULL, 10) : 0;
    uint64_t parts = count == 8 ? strtoull(args[7], NULL, 10) : 1;
    if (!pattern || depth < 1 || depth > MOST_DEPTH || seconds <= 0 || !amount || part >= parts) {
        fprintf(stderr, "no such pattern, or a number out of range\n");
        return 2;
    }
    block = pattern->block;
    sums = !strcmp(pattern->name, "sum");

    struct nbd_handle *nbd = nbd_create();
    if (!nbd || nbd_connect_uri(nbd, args[1]) < 0)
        return nbd_failed();
    /* All of each buffer is overwritten, or the read fails. */
    nbd_set_pread_initialize(nbd, false);
    int64_t size = nbd_get_size(nbd);
    if (size < 0)
        return nbd_failed();
    uint64_t blocks = (uint64_t)size / parts / block;
    uint64_t first = part * blocks;
    if (!blocks) {
        fprintf(stderr, "the export is too small\n");
        return 1;
    }
    uint64_t most = amount / block;
    /* A stream ends where the next one began; what is cached could be read again and again. */
    if (pattern->streams > 1 || sums)
        most = most < blocks ? most : blocks;

    room_for = 8000000;
    took_us = malloc(room_for * sizeof *took_us);
    unsigned char *memory = aligned_alloc(4096, block * depth);
    if (!took_us || !memory)
        return 1;
    memset(memory, 1, block * depth);
    for (int i = 0; i < depth; i++) {
        slots[i].buffer = memory + block * i;
        idle[idle_count++] = i;
    }

    uint64_t asked = 0, seed = mix(part ^ (uint64_t)time(NULL));
    double began = now();
    while (!failed) {
        while (idle_count && asked < most && (sums || now() - began < seconds)) {
            uint64_t at;
            if (!pattern->streams)
                at = mix(seed + asked) % blocks;
            else
                at = (asked / pattern->streams +
                      asked % pattern->streams * (blocks / pattern->streams)) % blocks;
            struct slot *slot = &slots[idle[--idle_count]];
            slot->began = now();
            slot->number = first + at;
            asked++;
            nbd_completion_callback then = {
                .callback = done,
                .user_data = (void *)(intptr_t)(slot - slots),
            };
            if (nbd_aio_pread(nbd, slot->buffer, block, slot->number * block, then, 0) < 0)
                return nbd_failed();
        }
        if (idle_count == depth)
            break;
        if (nbd_poll(nbd, -1) < 0)
            return nbd_failed();
    }
    double elapsed = now() - began;
    if (failed || !ended)
        return 1;
    uint64_t kept = ended < room_for ? ended : room_for;
    qsort(took_us, kept, sizeof *took_us, by_size);
    printf("{\"client\": \"libnbd\", \"pattern\": \"%s\", \"depth\": %d, \"ops\": %" PRIu64
           ", \"seconds\": %.4f, \"ops_per_s\": %.1f, \"mb_per_s\": %.3f, \"p50_us\": %.1f"
           ", \"p99_us\": %.1f, \"sum\": \"%016" PRIx64 "\"}\n",
           pattern->name, depth, ended, elapsed, ended / elapsed, ended * block / elapsed / 1e6,
           took_us[kept / 2], took_us[(uint64_t)(kept * 0.99)], sum);
    nbd_shutdown(nbd, 0);
    nbd_close(nbd);
    return 0;
}
