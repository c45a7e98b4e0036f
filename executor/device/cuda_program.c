/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops on the GPU: the tables of the kernel go up once, with what ops are; base addresses follow as buffers come to
 * life, before the first launch that needs them.
 */
#include <stdlib.h>
#include <string.h>

#include "device/boxes.h"
#include "device/cuda.h"

#define BLOCKS_PER_PROCESSOR 4u
#define TABLE_ALIGN          256u
#define SEND_SECONDS         60

struct device_program {
    struct cuda_device *cuda;
    struct device_stream *stream;
    uint32_t *tile_begin;
    uint64_t *bases;             /* pinned: what is to be sent */
    uint32_t dirty_lo, dirty_hi; /* not sent yet */
    char *tables;                /* on the device: boxes, tiles, bases */
    uint64_t table_bytes;
    uint64_t tiles_at, bases_at;
};

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
}

/* Through pinned memory, which is waited for and given back. */
static enum shunt_status send_tables(struct device_program *program, const struct boxes *boxes, struct shunt_err *err)
{
    struct cuda_device *cuda = program->cuda;
    struct shunt_device *device = &cuda->base;
    char *pinned;
    enum shunt_status st = device_cuda.alloc_host(device, program->bases_at, (void **)&pinned, err);
    if (st != SHUNT_OK || pinned == NULL)
        return st;
    memset(pinned, 0, program->bases_at);
    if (boxes->box_count > 0)
        memcpy(pinned, boxes->boxes, boxes->box_count * sizeof(*boxes->boxes));
    if (boxes->tile_count > 0)
        memcpy(pinned + program->tiles_at, boxes->tiles, boxes->tile_count * sizeof(*boxes->tiles));
    st = device_cuda.copy(device, program->stream, program->tables, pinned, program->bases_at, err);
    if (st == SHUNT_OK)
        st = device_cuda.stream_finish(device, program->stream, SEND_SECONDS, err);
    if (st == SHUNT_OK) /* else the copy may still be under way */
        device_cuda.free_host(device, pinned, program->bases_at);
    return st;
}

static enum shunt_status take_memory(struct device_program *program, const struct boxes *boxes, uint32_t base_count,
                                     struct shunt_err *err)
{
    struct shunt_device *device = &program->cuda->base;
    program->tiles_at = align_up(boxes->box_count * sizeof(*boxes->boxes));
    program->bases_at = align_up(program->tiles_at + boxes->tile_count * sizeof(*boxes->tiles));
    program->table_bytes = program->bases_at + align_up(base_count * sizeof(uint64_t));
    enum shunt_status st =
        device_cuda.alloc(device, program->stream, program->table_bytes, (void **)&program->tables, err);
    if (st == SHUNT_OK)
        st = device_cuda.alloc_host(device, base_count * sizeof(uint64_t), (void **)&program->bases, err);
    return st;
}

enum shunt_status cuda_program_create(struct shunt_device *device, struct device_stream *stream,
                                      const struct device_work *work, uint32_t count, uint32_t base_count,
                                      struct device_program **program_out, struct shunt_err *err)
{
    struct boxes boxes;
    enum shunt_status st = boxes_create(&boxes, work, count, err);
    if (st != SHUNT_OK)
        return st;
    struct device_program *program = calloc(1, sizeof(*program));
    if (program == NULL) {
        boxes_destroy(&boxes);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    }
    *program = (struct device_program){.cuda = (struct cuda_device *)device, .stream = stream};
    program->dirty_lo = UINT32_MAX;
    st = take_memory(program, &boxes, base_count, err);
    if (st == SHUNT_OK)
        st = send_tables(program, &boxes, err);
    if (program->bases != NULL)
        memset(program->bases, 0, base_count * sizeof(uint64_t));
    program->tile_begin = boxes.tile_begin;
    boxes.tile_begin = NULL;
    boxes_destroy(&boxes);
    if (st == SHUNT_OK)
        *program_out = program;
    else
        cuda_program_destroy(device, program);
    return st;
}

void cuda_program_destroy(struct shunt_device *device, struct device_program *program)
{
    device_cuda.free(device, program->stream, program->tables, program->table_bytes);
    device_cuda.free_host(device, program->bases, 0);
    free(program->tile_begin);
    free(program);
}

uint64_t cuda_program_bytes(const struct device_program *program)
{
    return program->table_bytes;
}

void cuda_program_bind(struct device_program *program, uint32_t base, void *address)
{
    program->bases[base] = (uintptr_t)address;
    program->dirty_lo = base < program->dirty_lo ? base : program->dirty_lo;
    program->dirty_hi = base + 1 > program->dirty_hi ? base + 1 : program->dirty_hi;
}

/* What earlier copies still read of the pinned table is never written again: places are filled once, in order. */
static enum shunt_status send_bases(struct device_program *program, struct shunt_err *err)
{
    if (program->dirty_lo >= program->dirty_hi)
        return SHUNT_OK;
    uint64_t lo = program->dirty_lo * sizeof(uint64_t), bytes = program->dirty_hi * sizeof(uint64_t) - lo;
    program->dirty_lo = UINT32_MAX;
    program->dirty_hi = 0;
    return device_cuda.copy(&program->cuda->base, program->stream, program->tables + program->bases_at + lo,
                            (const char *)program->bases + lo, bytes, err);
}

enum shunt_status cuda_program_run(struct shunt_device *device, struct device_program *program, uint32_t begin,
                                   uint32_t end, struct shunt_err *err)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct kernel_args args = {
        .boxes = (const struct kernel_box *)program->tables,
        .tiles = (const struct kernel_tile *)(program->tables + program->tiles_at),
        .bases = (const uint64_t *)(program->tables + program->bases_at),
        .tile_begin = program->tile_begin[begin],
        .tile_count = program->tile_begin[end] - program->tile_begin[begin],
    };
    void *list[] = {&args};
    if (args.tile_count == 0)
        return SHUNT_OK;
    enum shunt_status st = send_bases(program, err);
    if (st != SHUNT_OK)
        return st;
    uint32_t most = cuda->processors * BLOCKS_PER_PROCESSOR;
    dim3 grid = {args.tile_count < most ? args.tile_count : most, 1, 1}, block = {KERNEL_LANES, 1, 1};
    CUDA_CALL(cuda, err, cudaLaunchKernel, (const void *)cuda->kernel, grid, block, list, 0,
              (cudaStream_t)program->stream);
    return SHUNT_OK;
}
