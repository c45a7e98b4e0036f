/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happens-before. Every job has the clock of what was ordered before it when it was enqueued; every byte
 * has the job that wrote it last and the jobs that have read it since. Two jobs of which neither is
 * in the other's clock may run at the same time: if both touch a byte and one writes it, that is a
 * conflict, whichever came first this time.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

void clock_join(struct clock *clock, const struct clock *other)
{
    for (uint32_t i = 0; i < DOUBLE_MAX_STREAMS; i++) {
        if (other->at[i] > clock->at[i])
            clock->at[i] = other->at[i];
    }
}

struct adding {
    struct mark self;
    const struct clock *done;
    bool write, alone;
    struct conflict *conflict;
};

static bool same_mark(struct mark a, struct mark b)
{
    return a.stream == b.stream && a.number == b.number;
}

static bool is_before(const struct adding *adding, struct mark mark)
{
    if (mark.number == 0)
        return true;
    if (same_mark(mark, adding->self))
        return !adding->alone;
    return mark.number <= adding->done->at[mark.stream];
}

static void meet(const struct adding *adding, struct mark other, bool other_writes, uint64_t lo, uint64_t hi)
{
    if (adding->conflict->found || is_before(adding, other))
        return;
    *adding->conflict =
        (struct conflict){.other = other, .found = true, .other_writes = other_writes, .lo = lo, .hi = hi};
}

static void add_reader(const struct adding *adding, struct touch *touch)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < touch->reader_count; i++) {
        struct mark reader = touch->readers[i];
        if (same_mark(reader, adding->self) || reader.number > adding->done->at[reader.stream])
            touch->readers[kept++] = reader;
    }
    touch->reader_count = kept;
    for (uint32_t i = 0; i < kept; i++) {
        if (same_mark(touch->readers[i], adding->self))
            return;
    }
    if (kept == DOUBLE_MAX_READERS)
        double_fail(NULL, "more than %u jobs read the same bytes at the same time: too many for this double",
                    DOUBLE_MAX_READERS);
    touch->readers[touch->reader_count++] = adding->self;
}

/* Bytes that were touched before, all in the same way, are touched again. */
static void touch_again(const struct adding *adding, struct touch *touch)
{
    meet(adding, touch->writer, true, touch->lo, touch->hi);
    if (!adding->write) {
        add_reader(adding, touch);
        return;
    }
    for (uint32_t i = 0; i < touch->reader_count; i++)
        meet(adding, touch->readers[i], false, touch->lo, touch->hi);
    touch->writer = adding->self;
    touch->reader_count = 0;
}

static bool alike(const struct touch *a, const struct touch *b)
{
    return same_mark(a->writer, b->writer) && a->reader_count == b->reader_count &&
           memcmp(a->readers, b->readers, a->reader_count * sizeof(a->readers[0])) == 0;
}

static void push(struct touches *out, const struct touch *touch)
{
    struct touch *last = out->count > 0 ? &out->list[out->count - 1] : NULL;
    if (touch->lo == touch->hi)
        return;
    if (last != NULL && last->hi == touch->lo && alike(last, touch)) {
        last->hi = touch->hi;
        return;
    }
    if (out->count == out->room) {
        out->room = out->room < 16 ? 16 : 2 * out->room;
        out->list = realloc(out->list, out->room * sizeof(*out->list));
        if (out->list == NULL)
            abort();
    }
    out->list[out->count++] = *touch;
}

/* One run over the old touches from *at on; what lies before the run is copied, and a touch may be cut in two. */
static void add_run(const struct adding *adding, struct touches *out, const struct touches *old, size_t *at,
                    struct touch *rest, const struct run *run)
{
    uint64_t from = run->lo;
    while (rest->lo != rest->hi && rest->lo < run->hi) {
        struct touch part = *rest;
        if (rest->hi <= run->lo) {
            push(out, rest);
        } else {
            part.hi = rest->lo < run->lo ? run->lo : rest->lo; /* before the run */
            push(out, &part);
            if (part.hi > from) { /* a gap that nobody has touched */
                struct touch fresh = {.lo = from, .hi = part.hi};
                touch_again(adding, &fresh);
                push(out, &fresh);
            }
            struct touch both = *rest;
            both.lo = part.hi;
            both.hi = rest->hi < run->hi ? rest->hi : run->hi;
            from = both.hi;
            touch_again(adding, &both);
            push(out, &both);
            if (rest->hi > run->hi) {
                rest->lo = run->hi;
                return;
            }
        }
        *at += 1;
        *rest = *at < old->count ? old->list[*at] : (struct touch){0};
    }
    struct touch fresh = {.lo = from, .hi = run->hi};
    touch_again(adding, &fresh);
    push(out, &fresh);
}

static size_t first_ending_after(const struct touches *touches, uint64_t offset)
{
    size_t low = 0, high = touches->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (touches->list[mid].hi <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Replace old->list[begin, end) by what stands in `window`. */
static void splice(struct touches *old, size_t begin, size_t end, const struct touches *window)
{
    size_t count = old->count - (end - begin) + window->count;
    if (count > old->room) {
        old->room = count + count / 2 + 16;
        old->list = realloc(old->list, old->room * sizeof(*old->list));
        if (old->list == NULL)
            abort();
    }
    if (old->count > end)
        memmove(old->list + begin + window->count, old->list + end, (old->count - end) * sizeof(*old->list));
    if (window->count > 0)
        memcpy(old->list + begin, window->list, window->count * sizeof(*old->list));
    old->count = count;
}

void touches_add(struct touches *touches, const struct run *runs, size_t count, bool write, struct mark self,
                 const struct clock *done, bool alone, struct conflict *conflict_out)
{
    struct adding adding = {self, done, write, alone, conflict_out};
    struct touches window = {0};
    *conflict_out = (struct conflict){.found = false};
    if (count == 0)
        return;
    size_t begin = first_ending_after(touches, runs[0].lo), at = begin;
    struct touch rest = at < touches->count ? touches->list[at] : (struct touch){0};
    for (size_t i = 0; i < count; i++) {
        if (runs[i].lo < runs[i].hi)
            add_run(&adding, &window, touches, &at, &rest, &runs[i]);
    }
    if (rest.lo != rest.hi) {
        push(&window, &rest);
        at++;
    }
    splice(touches, begin, at, &window);
    free(window.list);
}

void touches_check_all(const struct touches *touches, const struct clock *done, struct conflict *conflict_out)
{
    struct adding adding = {{UINT32_MAX, UINT32_MAX}, done, true, false, conflict_out};
    *conflict_out = (struct conflict){.found = false};
    for (size_t i = 0; i < touches->count && !conflict_out->found; i++) {
        struct touch touch = touches->list[i];
        touch_again(&adding, &touch);
    }
}

void touches_finish(struct touches *touches)
{
    free(touches->list);
    *touches = (struct touches){0};
}
