/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/cap_lp.h"

#include <math.h>

#define GRID            65536.0 /* shares and times are whole parts of it */
#define MOST_ITERATIONS 40000
#define BUSY            0.25 /* ports with less than this share of the busiest one's seconds never set the time */

struct builder {
    const struct cap_lp_input *input;
    struct lp *lp;
    uint32_t lanes, slices;
    int *time;   /* by slice: column of its seconds, over those of the busiest port */
    int first;   /* column of lane 0 after slice 0; those of a lane follow each other */
    int room;    /* column of the room; -1: none */
    int *lacks;  /* by class: column of what it lacks; NULL: none */
    double unit; /* bytes that count as 1 */
};

static int done_column(const struct builder *builder, uint32_t lane, uint32_t slice)
{
    return builder->first + (int)(lane * builder->slices + slice);
}

static void add_columns(struct arena *arena, struct builder *builder)
{
    const struct cap_lp_input *input = builder->input;
    builder->first = lp_column_count(builder->lp);
    for (uint32_t l = 0; l < builder->lanes; l++) {
        for (uint32_t e = 0; e < builder->slices; e++)
            lp_add_column(builder->lp, 0, e + 1 == builder->slices ? 1 : 0, 1, false);
    }
    builder->room = -1;
    if (input->mode == CAP_LP_CAP)
        builder->room = lp_add_column(builder->lp, 1, 0, INFINITY, false);
    if (input->mode == CAP_LP_TIME) {
        builder->time = ARENA_NEW(arena, int, builder->slices);
        for (uint32_t e = 0; e < builder->slices; e++)
            builder->time[e] = lp_add_column(builder->lp, 1, 0, INFINITY, false);
    }
    if (input->mode == CAP_LP_ELASTIC) {
        builder->lacks = ARENA_NEW(arena, int, input->classes->class_count);
        for (uint32_t c = 0; c < input->classes->class_count; c++)
            builder->lacks[c] = lp_add_column(builder->lp, input->classes->class_size[c], 0, INFINITY, false);
    }
}

static void add_order(struct builder *builder)
{
    for (uint32_t l = 0; l < builder->lanes; l++) {
        for (uint32_t e = 1; e < builder->slices; e++) {
            int row = lp_add_row(builder->lp, 0, INFINITY);
            lp_add_entry(builder->lp, row, done_column(builder, l, e), 1);
            lp_add_entry(builder->lp, row, done_column(builder, l, e - 1), -1);
        }
    }
}

/** What a lane brings to a port, or to the staging of a device, of a class's first device. */
struct share {
    uint32_t lane;
    double value;
};

typedef VEC(struct share) share_vec;

/** In each slice: seconds of the slice >= sum of shares of the port. */
static void add_port(struct builder *builder, const share_vec *shares)
{
    for (uint32_t e = 0; e < builder->slices; e++) {
        int row = lp_add_row(builder->lp, 0, INFINITY);
        lp_add_entry(builder->lp, row, builder->time[e], 1);
        for (size_t i = 0; i < shares->count; i++) {
            lp_add_entry(builder->lp, row, done_column(builder, shares->items[i].lane, e), -shares->items[i].value);
            if (e > 0)
                lp_add_entry(builder->lp, row, done_column(builder, shares->items[i].lane, e - 1),
                             shares->items[i].value);
        }
    }
}

/** Shares of one port, or, with PORT_KINDS as its kind, of the staging. */
static double list_shares(struct arena *arena, const struct builder *builder, uint32_t device, uint32_t kind,
                          share_vec *shares)
{
    double total = 0;
    shares->count = 0;
    for (uint32_t l = 0; l < builder->lanes; l++) {
        const struct lane *lane = &builder->input->classes->lanes[l];
        double value = 0;
        for (uint32_t i = 0; i < lane->load_count; i++) {
            const struct load *load = &lane->loads[i];
            if (load->port / PORT_KINDS != device)
                continue;
            if (kind == PORT_KINDS && port_is_wire(load->port))
                value += (double)load->bytes;
            else if (load->port % PORT_KINDS == kind)
                value += load->seconds;
        }
        total += value;
        if (value > 0)
            *VEC_PUSH(arena, shares) = (struct share){l, value};
    }
    return total;
}

/** Rows of all ports that may set the time, each port measured by the busiest of its sort: wire, or staging. */
static void add_ports(struct arena *arena, struct builder *builder)
{
    const struct lanes *classes = builder->input->classes;
    double most[2] = {0};
    for (int add = 0; add < 2; add++) {
        for (uint32_t c = 0; c < classes->class_count; c++) {
            for (uint32_t kind = 0; kind <= PORT_KINDS; kind++) {
                share_vec shares = {0};
                double *of = &most[kind == PORT_KINDS];
                if (kind == PORT_PACK || kind == PORT_UNPACK)
                    continue;
                double total = list_shares(arena, builder, classes->class_device[c], kind, &shares);
                *of = total > *of ? total : *of;
                if (!add || total < BUSY * *of || total == 0)
                    continue;
                for (size_t i = 0; i < shares.count; i++)
                    shares.items[i].value /= *of;
                add_port(builder, &shares);
            }
        }
    }
}

/** Bytes of buffers of a device that no lane touches. */
static double base_of(const struct builder *builder, uint32_t device)
{
    const struct problem_device *sums = &builder->input->problem->devices[device];
    double base = (double)sums->from - (double)sums->unread;
    for (uint32_t l = 0; l < builder->lanes; l++) {
        const struct lane *lane = &builder->input->classes->lanes[l];
        for (uint32_t m = 0; m < lane->memory_count; m++) {
            if (lane->memory[m].device == device)
                base -= (double)lane->memory[m].release;
        }
    }
    return base;
}

/** The row of one device in one slice; its constants are on the right side. */
static void add_memory_row(struct builder *builder, uint32_t class, uint32_t slice, double base)
{
    const struct cap_lp_input *input = builder->input;
    uint32_t device = input->classes->class_device[class];
    double room = builder->room >= 0 ? 0 : (double)input->room / builder->unit, constant = base / builder->unit;
    int row = lp_add_row(builder->lp, -INFINITY, 0);
    for (uint32_t l = 0; l < builder->lanes; l++) {
        const struct lane *lane = &input->classes->lanes[l];
        for (uint32_t m = 0; m < lane->memory_count; m++) {
            const struct lane_memory *memory = &lane->memory[m];
            if (memory->device != device)
                continue;
            constant += (double)memory->release / builder->unit;
            lp_add_entry(builder->lp, row, done_column(builder, l, slice), (double)memory->alloc / builder->unit);
            if (slice > 0)
                lp_add_entry(builder->lp, row, done_column(builder, l, slice - 1),
                             -(double)memory->release / builder->unit);
        }
    }
    if (builder->room >= 0)
        lp_add_entry(builder->lp, row, builder->room, -1);
    if (builder->lacks != NULL)
        lp_add_entry(builder->lp, row, builder->lacks[class], -1);
    lp_set_row(builder->lp, row, -INFINITY, room - constant);
}

static void add_memory(struct builder *builder)
{
    const struct cap_lp_input *input = builder->input;
    for (uint32_t c = 0; c < input->classes->class_count; c++) {
        const struct problem_device *sums = &input->problem->devices[input->classes->class_device[c]];
        if (builder->room < 0 && sums->from + sums->to <= input->room)
            continue; /* it could hold both sides */
        double base = base_of(builder, input->classes->class_device[c]);
        for (uint32_t e = 0; e < builder->slices; e++)
            add_memory_row(builder, c, e, base);
    }
}

static double on_grid(double value)
{
    double parts = floor(value * GRID + 0.5);
    return parts < 0 ? 0 : parts > GRID ? 1 : parts / GRID;
}

static void take_shares(struct arena *arena, const struct builder *builder, const struct lp_result *solved,
                        struct cap_lp_result *result)
{
    result->done = ARENA_NEW(arena, double *, builder->lanes);
    for (uint32_t l = 0; l < builder->lanes; l++) {
        result->done[l] = ARENA_NEW(arena, double, builder->slices);
        for (uint32_t e = 0; e < builder->slices; e++)
            result->done[l][e] = on_grid(solved->values[done_column(builder, l, e)]);
    }
    result->begin = ARENA_NEW(arena, double, builder->slices + 1);
    for (uint32_t e = 0; e < builder->slices; e++)
        result->begin[e + 1] =
            result->begin[e] + (builder->time == NULL ? 1 : on_grid(solved->values[builder->time[e]]) + 1 / GRID);
    for (uint32_t e = 0; e <= builder->slices; e++)
        result->begin[e] /= result->begin[builder->slices];
}

static int most_iterations(const struct builder *builder)
{
    double most = builder->input->work / lp_column_count(builder->lp) + 1;
    return builder->input->work > 0 && most < MOST_ITERATIONS ? (int)most : MOST_ITERATIONS;
}

struct cap_lp_result cap_lp_solve(struct arena *arena, const struct cap_lp_input *input)
{
    struct builder builder = {.input = input,
                              .lp = lp_new(arena),
                              .lanes = input->classes->lane_count,
                              .slices = input->slices,
                              .unit = (double)input->problem->peak_lower_bound + 1};
    add_columns(arena, &builder);
    add_order(&builder);
    if (input->mode == CAP_LP_TIME)
        add_ports(arena, &builder);
    add_memory(&builder);
    const struct lp_options options = {.iterations = most_iterations(&builder), .seconds = input->seconds};
    const struct lp_result solved = lp_solve(builder.lp, &options);
    struct cap_lp_result result = {.status = solved.status,
                                   .work = (double)solved.iterations * lp_column_count(builder.lp)};
    if (solved.status != LP_OPTIMAL)
        return result;
    take_shares(arena, &builder, &solved, &result);
    result.room = solved.bound * builder.unit;
    if (builder.lacks == NULL)
        return result;
    result.lacking = ARENA_NEW(arena, uint64_t, input->classes->class_count);
    for (uint32_t c = 0; c < input->classes->class_count; c++)
        result.lacking[c] = (uint64_t)(on_grid(solved.values[builder.lacks[c]]) * builder.unit);
    return result;
}
