/* SPDX-License-Identifier: Apache-2.0 */
/* Streams are threads with a queue of jobs; events are places in a queue. One lock for all of it. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_internal.h"

#define END_MS 2000 /* for work that is left when the process ends */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER; /* some job is */
static struct CUstream_st *streams[DOUBLE_MAX_STREAMS];
static uint32_t stream_count;
static struct clock host; /* what the host has seen to be done */
static _Thread_local struct double_job *current;

void double_lock(void)
{
    pthread_mutex_lock(&lock);
}

void double_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- reports ----------------------------------------------------------------------- */

int double_rank(void)
{
    static const char *const names[] = {"SHUNT_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (text != NULL)
            return atoi(text);
    }
    return 0;
}

static void report(const char *where, const char *format, va_list args)
{
    char text[700], line[900];
    const char *path = getenv("SHUNT_DOUBLE_REPORT");
    vsnprintf(text, sizeof(text), format, args);
    if (where == NULL && current != NULL)
        where = current->call;
    snprintf(line, sizeof(line), "cuda double: rank %d: %s: %s\n", double_rank(), where == NULL ? "?" : where, text);
    fputs(line, stderr);
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file != NULL) {
        fputs(line, file);
        fclose(file);
    }
}

void double_note(const char *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(where, format, args);
    va_end(args);
}

void double_fail(const char *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(where, format, args);
    va_end(args);
    fflush(NULL);
    _exit(DOUBLE_EXIT);
}

bool double_must_fail(const char *call)
{
    static _Atomic unsigned calls;
    const char *text = getenv("SHUNT_DOUBLE_FAIL");
    size_t length = strlen(call);
    if (text == NULL || strncmp(text, call, length) != 0 || text[length] != ':')
        return false;
    return atomic_fetch_add(&calls, 1) + 1 == strtoul(text + length + 1, NULL, 10);
}

/* ---- jobs --------------------------------------------------------------------------- */

static void start_late(void)
{
    static _Atomic uint64_t state;
    static const char *seed;
    if (atomic_load(&state) == 0) {
        seed = getenv("SHUNT_DOUBLE_JITTER");
        atomic_store(&state, seed == NULL ? 1 : strtoull(seed, NULL, 0) * 2 + 1);
    }
    if (seed == NULL)
        return;
    uint64_t x = atomic_fetch_add(&state, UINT64_C(0x9E3779B97F4A7C15));
    x = (x ^ x >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
    if ((x >> 60) < 8)
        usleep((useconds_t)(x >> 40) % 1000);
}

/* Bytes a second; 0: no model. */
static uint64_t rate;
static pthread_once_t rate_once = PTHREAD_ONCE_INIT;

static void read_rate(void)
{
    const char *text = getenv("SHUNT_DOUBLE_RATE");
    rate = text != NULL ? strtoull(text, NULL, 0) : 0;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A job lasts as long as its bytes take. */
static void last(const struct double_job *job, int64_t begin_ns)
{
    pthread_once(&rate_once, read_rate);
    if (rate == 0 || job->touched == 0)
        return;
    int64_t end_ns = begin_ns + (int64_t)((double)job->touched / (double)rate * 1e9);
    struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

/* In the order in which jobs begin and end: what waits for a job begins after that has ended. */
static void log_locked(const struct CUstream_st *stream, const char *call, const char *what)
{
    static FILE *file;
    const char *path = getenv("SHUNT_DOUBLE_LOG");
    if (path != NULL && file == NULL)
        file = fopen(path, "ae");
    if (path == NULL || file == NULL)
        return;
    fprintf(file, "%s %u %s\n", what, stream->index, call);
    fflush(file);
}

static void *work(void *arg)
{
    struct CUstream_st *stream = arg;
    double_lock();
    for (;;) {
        while (stream->first == NULL && !stream->closing)
            pthread_cond_wait(&stream->wake, &lock);
        struct double_job *job = stream->first;
        if (job == NULL)
            break;
        double_unlock();
        start_late();
        double_lock();
        log_locked(stream, job->call, "begin");
        double_unlock();
        current = job;
        int64_t begin_ns = now_ns();
        job->run(job, job->arg);
        last(job, begin_ns);
        current = NULL;
        double_lock();
        log_locked(stream, job->call, "end");
        stream->first = job->next;
        if (stream->first == NULL)
            stream->last = &stream->first;
        stream->finished = job->number;
        pthread_cond_broadcast(&finished);
        free(job);
    }
    double_unlock();
    return NULL;
}

cudaStream_t stream_create(int device)
{
    if (stream_count == DOUBLE_MAX_STREAMS)
        return NULL;
    struct CUstream_st *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->index = stream_count;
    stream->device = device;
    stream->last = &stream->first;
    pthread_cond_init(&stream->wake, NULL);
    streams[stream_count++] = stream;
    return stream;
}

/* As with the real one, its jobs go on. What is known of them stays, for reports. */
void stream_destroy(cudaStream_t stream)
{
    stream->closing = true;
    pthread_cond_broadcast(&stream->wake);
}

static bool empties_in_time(struct CUstream_st *stream)
{
    for (int ms = 0; ms < END_MS; ms++) {
        double_lock();
        bool empty = stream->first == NULL;
        double_unlock();
        if (empty)
            return true;
        usleep(1000);
    }
    return false;
}

/*
 * Threads of streams that were destroyed are gone before the process ends, unless they hang: a leak checker that looks
 * at the end finds no thread half way out.
 */
void streams_join(void)
{
    for (uint32_t i = 0; i < DOUBLE_MAX_STREAMS; i++) {
        double_lock();
        struct CUstream_st *stream = i < stream_count ? streams[i] : NULL;
        bool leaving = stream != NULL && stream->started && stream->closing;
        double_unlock();
        if (leaving && empties_in_time(stream))
            pthread_join(stream->thread, NULL);
    }
}

static void keep_call(cudaStream_t stream, const char *call)
{
    if (stream->number >= stream->call_room) {
        stream->call_room = stream->call_room == 0 ? 64 : 2 * stream->call_room;
        stream->calls = realloc(stream->calls, stream->call_room * sizeof(*stream->calls));
        if (stream->calls == NULL)
            abort();
    }
    stream->calls[stream->number] = call;
}

uint32_t stream_enqueue_locked(cudaStream_t stream, const char *call, double_job_fn run, void *arg)
{
    struct double_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        abort();
    if (stream->closing)
        double_fail(call, "uses a stream that was destroyed");
    clock_join(&stream->done, &host);
    keep_call(stream, call);
    *job = (struct double_job){
        .call = call, .run = run, .arg = arg, .stream = stream, .number = ++stream->number, .done = stream->done};
    stream->done.at[stream->index] = stream->number;
    *stream->last = job;
    stream->last = &job->next;
    if (!stream->started) {
        stream->started = true;
        if (pthread_create(&stream->thread, NULL, work, stream) != 0)
            double_fail(call, "no thread for a stream");
    }
    pthread_cond_signal(&stream->wake);
    return stream->number;
}

static bool is_stream(cudaStream_t stream)
{
    for (uint32_t i = 0; i < stream_count; i++) {
        if (streams[i] == stream)
            return true;
    }
    return false;
}

void double_enqueue(cudaStream_t stream, const char *call, double_job_fn run, void *arg)
{
    double_lock();
    if (!is_stream(stream))
        double_fail(call, "uses %s",
                    stream == NULL ? "the default stream, which waits for all others" : "a stream that there is not");
    stream_enqueue_locked(stream, call, run, arg);
    double_unlock();
}

int double_stream_device(cudaStream_t stream)
{
    double_lock();
    int device = is_stream(stream) && !stream->closing ? stream->device : -1;
    double_unlock();
    return device;
}

bool double_stream_idle(cudaStream_t stream)
{
    double_lock();
    bool idle = stream->finished == stream->number;
    double_unlock();
    return idle;
}

uint32_t double_stream_jobs(cudaStream_t stream)
{
    double_lock();
    uint32_t number = stream->number;
    double_unlock();
    return number;
}

/* ---- events and waiting ----------------------------------------------------------------- */

bool mark_done(struct mark mark)
{
    return mark.number == 0 || streams[mark.stream]->finished >= mark.number;
}

const char *mark_call(struct mark mark)
{
    return mark.number == 0 ? "nothing" : streams[mark.stream]->calls[mark.number - 1];
}

const struct clock *host_clock(void)
{
    return &host;
}

void host_saw(const struct clock *done)
{
    clock_join(&host, done);
}

void host_wait(struct mark mark)
{
    while (!mark_done(mark))
        pthread_cond_wait(&finished, &lock);
}

static void nothing(struct double_job *job, void *arg)
{
    (void)job, (void)arg;
}

static void wait_for_mark(struct double_job *job, void *arg)
{
    struct mark *mark = arg;
    (void)job;
    double_lock();
    host_wait(*mark);
    double_unlock();
    free(mark);
}

static void disown(struct stamp *stamp)
{
    if (stamp != NULL && --stamp->owners == 0)
        free(stamp);
}

static void take_time(struct double_job *job, void *arg)
{
    struct stamp *stamp = arg;
    int64_t ns = now_ns();
    (void)job;
    double_lock();
    stamp->ns = ns;
    disown(stamp);
    double_unlock();
}

void event_finish(cudaEvent_t event)
{
    disown(event->stamp);
    event->stamp = NULL;
}

void event_record(cudaEvent_t event, cudaStream_t stream)
{
    event_finish(event);
    if (event->timed) {
        event->stamp = calloc(1, sizeof(*event->stamp));
        if (event->stamp == NULL)
            abort();
        event->stamp->owners = 2;
    }
    event->mark.number =
        stream_enqueue_locked(stream, "cudaEventRecord", event->timed ? take_time : nothing, event->stamp);
    event->mark.stream = stream->index;
    event->done = stream->done;
}

void stream_wait_event(cudaStream_t stream, cudaEvent_t event)
{
    if (event->mark.number == 0) /* as with the real one: nothing to wait for */
        return;
    struct mark *mark = malloc(sizeof(*mark));
    if (mark == NULL)
        abort();
    *mark = event->mark;
    clock_join(&stream->done, &event->done);
    stream_enqueue_locked(stream, "cudaStreamWaitEvent", wait_for_mark, mark);
}

/* ---- touching memory --------------------------------------------------------------------- */

void job_touch(struct double_job *job, struct region *region, const struct run *runs, size_t count, bool write,
               bool alone)
{
    struct conflict conflict;
    struct mark self = {job->stream->index, job->number};
    for (size_t i = 0; i < count; i++)
        job->touched += runs[i].hi - runs[i].lo;
    touches_add(&region->touches, runs, count, write, self, &job->done, alone, &conflict);
    if (!conflict.found)
        return;
    if (conflict.other.stream == self.stream && conflict.other.number == self.number)
        double_fail(job->call, "one launch %s bytes [%" PRIu64 ", %" PRIu64 ") of %" PRIu64 " at %p, which it also %s",
                    write ? "writes" : "reads", conflict.lo, conflict.hi, region->bytes, (void *)region->base,
                    conflict.other_writes ? "writes" : "reads");
    double_fail(job->call,
                "%s bytes [%" PRIu64 ", %" PRIu64 ") of %" PRIu64 " at %p, which %s of another stream may still %s: no "
                "event orders them",
                write ? "writes" : "reads", conflict.lo, conflict.hi, region->bytes, (void *)region->base,
                mark_call(conflict.other), conflict.other_writes ? "write" : "read");
}

static char *touch(struct double_job *job, const void *ptr, size_t bytes, bool write)
{
    char text[160];
    double_lock();
    struct region *region = region_find(ptr);
    region_describe(ptr, text, sizeof(text));
    if (region == NULL || !region->live)
        double_fail(job->call, "%s %zu bytes at %s", write ? "writes" : "reads", bytes, text);
    struct run run = {(uintptr_t)ptr - region->base, (uintptr_t)ptr - region->base + bytes};
    if (run.hi > region->bytes)
        double_fail(job->call, "%s %zu bytes, beyond the end, at %s", write ? "writes" : "reads", bytes, text);
    job_touch(job, region, &run, 1, write, false);
    char *home = region->home + run.lo;
    double_unlock();
    return home;
}

const void *double_read(struct double_job *job, const void *device_ptr, size_t bytes)
{
    return bytes == 0 ? NULL : touch(job, device_ptr, bytes, false);
}

void *double_write(struct double_job *job, void *device_ptr, size_t bytes)
{
    return bytes == 0 ? NULL : touch(job, device_ptr, bytes, true);
}
