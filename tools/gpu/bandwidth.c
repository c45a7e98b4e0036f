/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the executor's kernel moves a second, beside a plain copy of the device: packs and unpacks of rows of one length,
 * which lie twice as far apart as they are long, and casts and zeros. One JSON object on stdout:
 *
 *     {"bytes": B, "copy": GB/s, "rows": [{"row": bytes, "pack": GB/s, "unpack": GB/s}, ...], "narrow": ..., ...}
 *
 * Rates count bytes read and bytes written. Each is the best of several tries, between events of the stream.
 *
 * usage: gpu-bandwidth DEVICE BYTES TRIES
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/number.h"
#include "device/device.h"
#include "shunt/exec.h"

#define FINISH_SECONDS 60.0

/* Row lengths of the standard ladder's pieces: heads of one head, hidden sizes cut by 8, whole rows; and all in one. */
static const uint64_t rows[] = {64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

enum { DENSE = 0, WIDE, BASES };

struct bench {
    struct shunt_device *on;
    struct device_stream *stream;
    struct device_event *begin, *end;
    uint64_t bytes; /* of a dense buffer; the other one has twice as many */
    uint32_t tries;
    void *memory[BASES];
};

static void check(enum shunt_status st, const struct shunt_err *err)
{
    if (st == SHUNT_OK)
        return;
    fprintf(stderr, "gpu-bandwidth: %s\n", err->text);
    exit(shunt_status_exit_code(st));
}

static struct shunt_plan_view view_of(uint64_t count, uint64_t row, uint64_t stride, uint32_t elem_bytes)
{
    struct shunt_plan_view view = {.ndim = 2, .elem_bytes = elem_bytes};
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++)
        view.shape[d] = 1;
    view.shape[0] = (int64_t)count;
    view.shape[1] = (int64_t)(row / elem_bytes);
    view.stride[0] = (int64_t)stride;
    view.stride[1] = elem_bytes;
    return view;
}

/* What is put on the stream: a program, or with NULL a plain copy. */
static void put(struct bench *bench, struct device_program *program)
{
    struct shunt_err err = {{0}};
    const struct device_ops *ops = bench->on->ops;
    if (program != NULL)
        check(ops->program_run(bench->on, program, 0, 1, &err), &err);
    else
        check(ops->copy(bench->on, bench->stream, bench->memory[DENSE], bench->memory[WIDE], bench->bytes, &err), &err);
}

/* The first try warms up, and does not count. */
static double best_seconds(struct bench *bench, struct device_program *program)
{
    const struct device_ops *ops = bench->on->ops;
    struct shunt_err err = {{0}};
    double best = 0;
    for (uint32_t i = 0; i <= bench->tries; i++) {
        double seconds;
        check(ops->event_record(bench->on, bench->begin, bench->stream, &err), &err);
        put(bench, program);
        check(ops->event_record(bench->on, bench->end, bench->stream, &err), &err);
        check(ops->stream_finish(bench->on, bench->stream, FINISH_SECONDS, &err), &err);
        check(ops->event_seconds(bench->on, bench->begin, bench->end, &seconds, &err), &err);
        if (i > 0 && (best == 0 || seconds < best))
            best = seconds;
    }
    return best;
}

static double rate_of(struct bench *bench, const struct device_work *work, uint64_t touched)
{
    const struct device_ops *ops = bench->on->ops;
    struct shunt_err err = {{0}};
    struct device_program *program = NULL;
    if (work != NULL) {
        check(ops->program_create(bench->on, bench->stream, work, 1, BASES, &program, &err), &err);
        for (uint32_t i = 0; i < BASES; i++)
            ops->program_bind(program, i, bench->memory[i]);
    }
    double seconds = best_seconds(bench, program);
    if (program != NULL)
        ops->program_destroy(bench->on, program);
    return seconds > 0 ? (double)touched / seconds / 1e9 : 0;
}

static void measure_rows(struct bench *bench, struct jsonw *json)
{
    jsonw_open(json, "rows", '[');
    for (size_t i = 0; i < ROW_COUNT; i++) {
        uint64_t row = rows[i], count = bench->bytes / row;
        if (count == 0)
            continue;
        struct shunt_plan_view dense = view_of(count, row, row, 2), wide = view_of(count, row, 2 * row, 2);
        struct device_end in = {.base = DENSE, .view = &dense}, out = {.base = WIDE, .view = &wide};
        struct device_work pack = {.dst = in, .src = out}, unpack = {.dst = out, .src = in};
        jsonw_open(json, NULL, '{');
        jsonw_u64(json, "row", row);
        jsonw_double(json, "pack", rate_of(bench, &pack, 2 * count * row));
        jsonw_double(json, "unpack", rate_of(bench, &unpack, 2 * count * row));
        jsonw_close(json, '}');
    }
    jsonw_close(json, ']');
}

static void measure_kinds(struct bench *bench, struct jsonw *json)
{
    uint64_t count = bench->bytes / 4;
    struct shunt_plan_view narrow = view_of(1, 2 * count, 2 * count, 2), wide = view_of(1, 4 * count, 4 * count, 4);
    struct device_end two = {.base = DENSE, .view = &narrow}, four = {.base = WIDE, .view = &wide};
    struct device_work down = {.dst = two, .src = four, .cast = SHUNT_CAST_FP32_BF16};
    struct device_work up = {.dst = four, .src = two, .cast = SHUNT_CAST_BF16_FP32};
    struct device_work zero = {.dst = four, .zero = true};
    jsonw_double(json, "narrow", rate_of(bench, &down, 6 * count));
    jsonw_double(json, "widen", rate_of(bench, &up, 6 * count));
    jsonw_double(json, "zero", rate_of(bench, &zero, 4 * count));
}

static void open_bench(struct bench *bench, const char *name)
{
    struct shunt_err err = {{0}};
    check(shunt_device_open(name, &bench->on, &err), &err);
    const struct device_ops *ops = bench->on->ops;
    if (!ops->asynchronous)
        check(shunt_fail(&err, SHUNT_ERR_USAGE, "device %s has no streams to measure", name), &err);
    check(ops->stream_create(bench->on, &bench->stream, &err), &err);
    check(ops->event_create(bench->on, true, &bench->begin, &err), &err);
    check(ops->event_create(bench->on, true, &bench->end, &err), &err);
    for (uint32_t i = 0; i < BASES; i++) {
        uint64_t bytes = (i + 1) * bench->bytes;
        check(ops->alloc(bench->on, bench->stream, bytes, &bench->memory[i], &err), &err);
        check(ops->fill(bench->on, bench->stream, bench->memory[i], 1, bytes, &err), &err);
    }
}

static void close_bench(struct bench *bench)
{
    const struct device_ops *ops = bench->on->ops;
    for (uint32_t i = 0; i < BASES; i++)
        ops->free(bench->on, bench->stream, bench->memory[i], (i + 1) * bench->bytes);
    ops->event_destroy(bench->on, bench->begin);
    ops->event_destroy(bench->on, bench->end);
    ops->stream_finish(bench->on, bench->stream, FINISH_SECONDS, NULL);
    ops->stream_destroy(bench->on, bench->stream);
    shunt_device_close(bench->on);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct jsonw json = {.file = stdout};
    uint64_t tries;
    if (argc != 4 || !number_parse_u64(argv[2], &bench.bytes) || !number_parse_u64(argv[3], &tries) ||
        bench.bytes < 4096 || tries == 0 || tries > 1000) {
        fprintf(stderr, "usage: gpu-bandwidth DEVICE BYTES TRIES\n");
        return 2;
    }
    bench.bytes = bench.bytes / 4096 * 4096;
    bench.tries = (uint32_t)tries;
    open_bench(&bench, argv[1]);
    jsonw_open(&json, NULL, '{');
    jsonw_u64(&json, "bytes", bench.bytes);
    jsonw_double(&json, "copy", rate_of(&bench, NULL, 2 * bench.bytes));
    measure_rows(&bench, &json);
    measure_kinds(&bench, &json);
    jsonw_close(&json, '}');
    printf("\n");
    close_bench(&bench);
    return 0;
}
