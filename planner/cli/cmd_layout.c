/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt layout`: what was understood of one layout, and its map. */

#include <stdio.h>
#include <stdlib.h>

#include "beside_print.h"
#include "cli.h"
#include "compile.h"
#include "explicit_print.h"
#include "format.h"
#include "json.h"
#include "space/pair.h"

struct layout_options {
    const char *path, *model;
    uint64_t rank;
    bool rank_given, all_ranks, json, explicit_form;
};

static const char description[] =
    "Print what Shunt understood of a layout document: sizes and order of the axes, layers of each pipeline stage, "
    "states with their dtypes, parameters and bytes, and the state beside the tensors with its policies. With --rank, "
    "every tensor of one rank: its local shape and the boxes of the global tensor that it holds; with --all-ranks, the "
    "same of each rank. With --explicit, the layout written box by box, as a document that "
    "`shunt plan` reads back.";

static int parse(int argc, char **argv, struct layout_options *o)
{
    const struct cli_option options[] = {
        {"rank", .type = CLI_UINT, .target = &o->rank, .value_name = "R", .help = "print the map of one rank",
         .given = &o->rank_given},
        {"all-ranks", .type = CLI_FLAG, .target = &o->all_ranks, .help = "print the maps of all ranks"},
        {"model", .type = CLI_STRING, .target = &o->model, .value_name = "M.yaml",
         .help = "model document, in place of the layout's own"},
        {"explicit", .type = CLI_FLAG, .target = &o->explicit_form,
         .help = "print the same layout as a document in holdings form"},
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print one JSON object"},
    };
    const struct cli_command command = {
        .name = "layout",
        .synopsis = "LAYOUT.yaml [--rank R | --all-ranks] [--json] | LAYOUT.yaml --explicit",
        .summary = "print the map of one layout",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 1,
        .max_positional = 1,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);
    if (code < 0 && o->explicit_form && (o->rank_given || o->all_ranks || o->json))
        code = cli_usage(&command,
                         "found --explicit beside --%s, expected one or the other: it prints a document of "
                         "all ranks",
                         o->json         ? "json"
                         : o->rank_given ? "rank"
                                         : "all-ranks");
    if (code < 0 && o->rank_given && o->all_ranks)
        code = cli_usage(&command, "found --rank beside --all-ranks, expected one or the other");
    o->path = positional[0];
    return code;
}

/* ---- people ------------------------------------------------------------------- */

static void print_box(const struct box *box)
{
    char text[SHUNT_MAX_DIMS * 48];
    fputs(box_print(box, text, sizeof(text)), stdout);
}

static void print_shape(uint32_t ndim, const int64_t *shape)
{
    putchar('[');
    for (uint32_t d = 0; d < ndim; d++)
        printf("%s%lld", d > 0 ? ", " : "", (long long)shape[d]);
    putchar(']');
}

static void print_states(const struct cfg_layout *layout)
{
    printf("states      ");
    for (int s = 0; s < SHUNT_STATE_COUNT; s++) {
        if (layout->state_dtype[s] < 0)
            continue;
        printf("%s%s %s", s > 0 ? ", " : "", shunt_state_name((unsigned)s),
               shunt_dtype_name((unsigned)layout->state_dtype[s]));
        if (layout->state_derived[s])
            printf(" from %s", shunt_state_name(cfg_layout_derived_from(layout, (enum shunt_state)s)));
        fputs(layout->state_scale[s] == CFG_SCALE_SHARD ? " with scales" : "", stdout);
        fputs(layout->state_tier[s] == CFG_TIER_HOST ? " on the host" : "", stdout);
    }
    putchar('\n');
}

/** How the ranks are numbered; chunks as STAGE:[first layer,last). */
static void print_axes(const struct side *side)
{
    const struct cfg_layout *layout = side->layout;
    if (layout->form == CFG_FORM_HOLDINGS) {
        printf(", given box by box\n");
        return;
    }
    for (uint32_t a = layout->mesh.axis_count; a-- > 0;)
        printf("%s %s %lld", a + 1 == layout->mesh.axis_count ? ":" : "", layout->mesh.names[a],
               (long long)layout->mesh.shape[a]);
    for (int i = 0; i < CFG_AXIS_COUNT && layout->form == CFG_FORM_PARALLEL; i++)
        printf("%s %s %lld", i == 0 ? ":" : "", cfg_axis_names[layout->order[i]],
               (long long)layout->size[layout->order[i]]);
    printf(" (fastest first)\n");
    if (layout->form != CFG_FORM_PARALLEL)
        return;
    printf("chunks     ");
    for (int64_t s = 0; s < side->pipeline.chunks; s++)
        printf(" %lld:[%lld,%lld)", (long long)(s % side->pipeline.stages), (long long)side->pipeline.chunk_begin[s],
               (long long)side->pipeline.chunk_begin[s + 1]);
    putchar('\n');
}

static void print_page(const struct space *space, const struct side *side)
{
    const struct cfg_layout *layout = side->layout;
    uint64_t largest = 0, total = 0;
    for (uint32_t r = 0; r < side->grid.rank_count; r++) {
        uint64_t bytes = side_rank_bytes(side, r);
        total += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    printf("layout      %s (%s)\n", layout->name, layout->path);
    printf("model       %s: %lld layers, %s tensors, %s parameters\n", space->model->name,
           (long long)space->model->layers, fmt_count(space->tensor_count).s,
           fmt_count(space_parameter_count(space)).s);
    printf("ranks       %u", side->grid.rank_count);
    print_axes(side);
    print_states(layout);
    if (layout->current_owner)
        printf("current     weights only where the rank's own optimizer shard covers them\n");
    printf("space       %s (%s B), each element once\n", fmt_bytes(space_total_bytes(space)).s,
           fmt_count(space_total_bytes(space)).s);
    printf("held        %s over all ranks, at most %s on one\n", fmt_bytes(total).s, fmt_bytes(largest).s);
    beside_print_model(space->model);
}

static void print_item(struct arena *arena, const struct side *side, uint32_t i,
                       const struct placement_variant *variant)
{
    const struct space_item *item = &side->space->items[i];
    const struct space_family *family = &side->space->families[item->family];
    printf("%-10s %-36s %-5s ", shunt_state_name(item->state),
           space_tensor_name(arena, family, item->layer, item->expert), shunt_dtype_name(item->dtype[SPACE_FROM]));
    print_shape(variant->ndim, variant->shape);
    printf(" of ");
    print_shape(family->ndim, family->shape);
    putchar(' ');
    for (uint32_t h = 0; h < variant->holding_count; h++) {
        putchar(' ');
        print_box(&variant->holdings[h].box);
    }
    for (uint32_t p = 0; p < variant->pad_count; p++) {
        printf("  pad, local ");
        print_box(&variant->pads[p]);
    }
    putchar('\n');
}

static void print_rank(struct arena *arena, const struct space *space, const struct side *side, uint32_t rank)
{
    const struct grid_rank *at = &side->grid.ranks[rank];
    printf("rank        %u on device %u:", rank, at->device);
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++)
        printf(" %s %lld", cfg_axis_names[axis], (long long)at->at[axis]);
    printf("\nheld        %s (%s B)\n\n", fmt_bytes(side_rank_bytes(side, rank)).s,
           fmt_count(side_rank_bytes(side, rank)).s);
    for (uint32_t i = 0; i < space->item_count; i++) {
        const struct placement_variant *variant = side_variant(side, i, rank);
        if (variant != NULL)
            print_item(arena, side, i, variant);
    }
}

static void print_ranks(struct arena *arena, const struct side *side)
{
    for (uint32_t r = 0; r < side->grid.rank_count; r++) {
        if (r > 0)
            printf("\n");
        print_rank(arena, side->space, side, r);
    }
}

/* ---- JSON ----------------------------------------------------------------------- */

static void json_shape(struct json *json, const char *key, uint32_t ndim, const int64_t *shape)
{
    json_key(json, key);
    json_array_begin(json);
    for (uint32_t d = 0; d < ndim; d++)
        json_i64(json, shape[d]);
    json_array_end(json);
}

static void json_box(struct json *json, const struct box *box)
{
    json_array_begin(json);
    for (uint32_t d = 0; d < box->ndim; d++) {
        json_array_begin(json);
        json_i64(json, box->lo[d]);
        json_i64(json, box->hi[d]);
        json_array_end(json);
    }
    json_array_end(json);
}

static void json_item(struct json *json, struct arena *arena, const struct side *side, uint32_t i,
                      const struct placement_variant *variant)
{
    const struct space_item *item = &side->space->items[i];
    const struct space_family *family = &side->space->families[item->family];
    json_object_begin(json);
    json_key_string(json, "tensor", space_tensor_name(arena, family, item->layer, item->expert));
    json_key_string(json, "state", shunt_state_name(item->state));
    json_key_string(json, "dtype", shunt_dtype_name(item->dtype[SPACE_FROM]));
    json_key_string(json, "tier", side_tier(side, i) == CFG_TIER_HOST ? "host" : "device");
    json_shape(json, "shape", family->ndim, family->shape);
    json_shape(json, "local_shape", variant->ndim, variant->shape);
    json_key(json, "boxes");
    json_array_begin(json);
    for (uint32_t h = 0; h < variant->holding_count; h++)
        json_box(json, &variant->holdings[h].box);
    json_array_end(json);
    json_key(json, "pads");
    json_array_begin(json);
    for (uint32_t p = 0; p < variant->pad_count; p++)
        json_box(json, &variant->pads[p]);
    json_array_end(json);
    json_object_end(json);
}

static void json_rank(struct json *json, struct arena *arena, const struct side *side, uint32_t rank)
{
    json_key(json, "rank");
    json_u64(json, rank);
    json_key(json, "device");
    json_u64(json, side->grid.ranks[rank].device);
    json_key(json, "at");
    json_object_begin(json);
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        json_key(json, cfg_axis_names[axis]);
        json_i64(json, side->grid.ranks[rank].at[axis]);
    }
    json_object_end(json);
    json_key(json, "bytes");
    json_u64(json, side_rank_bytes(side, rank));
    json_key(json, "tensors");
    json_array_begin(json);
    for (uint32_t i = 0; i < side->space->item_count; i++) {
        const struct placement_variant *variant = side_variant(side, i, rank);
        if (variant != NULL)
            json_item(json, arena, side, i, variant);
    }
    json_array_end(json);
}

static void json_ranks(struct json *json, struct arena *arena, const struct side *side)
{
    json_key(json, "ranks");
    json_array_begin(json);
    for (uint32_t r = 0; r < side->grid.rank_count; r++) {
        json_object_begin(json);
        json_rank(json, arena, side, r);
        json_object_end(json);
    }
    json_array_end(json);
}

static void json_overview(struct json *json, const struct side *side)
{
    const struct cfg_layout *layout = side->layout;
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        {"layers", (uint64_t)side->space->model->layers},
        {"tensors", side->space->tensor_count},
        {"parameters", space_parameter_count(side->space)},
        {"space_bytes", space_total_bytes(side->space)},
        {"ranks", side->grid.rank_count},
    };
    json_key(json, "layout");
    json_string(json, layout->name);
    json_key(json, "model");
    json_string(json, side->space->model->name);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        json_key(json, counts[i].key);
        json_u64(json, counts[i].value);
    }
    json_key(json, "parallel");
    json_object_begin(json);
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        json_key(json, cfg_axis_names[axis]);
        json_i64(json, layout->size[axis]);
    }
    json_object_end(json);
    json_key(json, "order");
    json_array_begin(json);
    for (int i = 0; i < CFG_AXIS_COUNT; i++)
        json_string(json, cfg_axis_names[layout->order[i]]);
    json_array_end(json);
    if (side->pipeline.chunks > 0)
        json_shape(json, "chunk_layers", (uint32_t)side->pipeline.chunks + 1, side->pipeline.chunk_begin);
    json_key(json, "rank_bytes");
    json_array_begin(json);
    for (uint32_t r = 0; r < side->grid.rank_count; r++)
        json_u64(json, side_rank_bytes(side, r));
    json_array_end(json);
    beside_json_model(json, side->space->model);
}

/* ---- verb ----------------------------------------------------------------------- */

static enum shunt_status print_json(struct arena *arena, const struct layout_options *o, const struct side *side)
{
    struct json json;
    json_init(&json, stdout, true);
    json_object_begin(&json);
    if (o->rank_given)
        json_rank(&json, arena, side, (uint32_t)o->rank);
    else if (o->all_ranks)
        json_ranks(&json, arena, side);
    else
        json_overview(&json, side);
    json_object_end(&json);
    return json_finish(&json) ? SHUNT_OK : SHUNT_ERR_IO;
}

static enum shunt_status print(struct arena *arena, const struct layout_options *o, const struct side *side)
{
    if (o->json)
        return print_json(arena, o, side);
    if (o->explicit_form)
        explicit_print(arena, side);
    else if (o->rank_given)
        print_rank(arena, side->space, side, (uint32_t)o->rank);
    else if (o->all_ranks)
        print_ranks(arena, side);
    else
        print_page(side->space, side);
    return fflush(stdout) == 0 && !ferror(stdout) ? SHUNT_OK : SHUNT_ERR_IO;
}

static enum shunt_status build_and_print(struct arena *arena, const struct layout_options *o,
                                         const struct compile_documents *documents, struct shunt_err *err)
{
    struct pair pair;
    enum shunt_status status = pair_build(arena, documents->model, documents->from, documents->from, &pair, err);
    if (status != SHUNT_OK)
        return status;
    const struct side *side = pair.from;
    if (o->rank_given && o->rank >= side->grid.rank_count)
        return shunt_fail(err, SHUNT_ERR_USAGE, "layout: --rank: found %llu, expected less than %u",
                          (unsigned long long)o->rank, side->grid.rank_count);
    status = print(arena, o, side);
    return status == SHUNT_OK ? status : shunt_fail(err, status, "write to stdout failed");
}

int cmd_layout(int argc, char **argv)
{
    struct layout_options options = {0};
    struct compile_documents documents;
    struct shunt_err err = {0};
    int code = parse(argc, argv, &options);
    if (code >= 0)
        return code;
    const struct compile_options load = {.from_path = options.path, .model = options.model};
    enum shunt_status status = compile_load_one(&load, &documents, stderr);
    if (status != SHUNT_OK)
        return shunt_status_exit_code(status);
    struct arena *arena = malloc(sizeof(*arena));
    if (arena == NULL) {
        compile_unload(&documents);
        shunt_fail(&err, SHUNT_ERR_NOMEM, "out of memory");
        return cli_fail(SHUNT_ERR_NOMEM, &err);
    }
    arena_init(arena);
    if (setjmp(arena->on_failure) == 0)
        status = build_and_print(arena, &options, &documents, &err);
    else
        status = shunt_fail(&err, SHUNT_ERR_NOMEM, "out of memory");
    arena_finish(arena);
    free(arena);
    compile_unload(&documents);
    return status == SHUNT_OK ? 0 : cli_fail(status, &err);
}
