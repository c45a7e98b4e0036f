/* SPDX-License-Identifier: Apache-2.0 */
/** Classes against every element of small moves; bounds of small worlds against every way to route their classes. */

#include "harness.h"
#include "route_rig.h"
#include "routing/bound.h"

/* ---- classes of small moves, element by element -------------------------------- */

/** Bytes that the same devices hold and the same must get, as sets of bits. */
struct element_class {
    uint64_t holders, takers, made, bytes;
};

struct element_classes {
    uint32_t count;
    struct element_class classes[512];
};

static void add_class(struct element_classes *list, uint64_t holders, uint64_t takers, uint64_t made, uint64_t bytes)
{
    uint32_t c = 0;
    while (c < list->count &&
           (list->classes[c].holders != holders || list->classes[c].takers != takers || list->classes[c].made != made))
        c++;
    if (c == sizeof(list->classes) / sizeof(list->classes[0])) {
        CHECK(!"more classes than expected");
        return;
    }
    list->count += c == list->count;
    list->classes[c].holders = holders;
    list->classes[c].takers = takers;
    list->classes[c].made = made;
    list->classes[c].bytes += bytes;
}

/** Devices whose part of a placement has an element. */
static uint64_t devices_with(const struct placement *placement, const uint32_t *device_of, const struct box *element)
{
    uint64_t devices = 0;
    struct box common;
    for (uint32_t v = 0; placement != NULL && v < placement->variant_count; v++) {
        const struct placement_variant *variant = &placement->variants[v];
        for (uint32_t h = 0; h < variant->holding_count; h++) {
            for (uint32_t r = 0; box_intersect(&variant->holdings[h].box, element, &common) && r < variant->rank_count;
                 r++)
                devices |= UINT64_C(1) << device_of[variant->ranks[r]];
        }
    }
    return devices;
}

static uint64_t nodes_of(const struct world *world, uint64_t devices)
{
    uint64_t nodes = 0;
    for (uint32_t d = 0; d < world->device_count; d++)
        nodes |= (devices >> d & 1) << world->devices[d].node;
    return nodes;
}

static void add_element(const struct route *route, const struct route_type *type, const struct box *element,
                        struct element_classes *list)
{
    uint64_t holders = devices_with(route_from(route, type), route->world->from_device, element);
    uint64_t fresh = devices_with(route_fresh(route, type), route->world->to_device, element);
    uint64_t takers = devices_with(route_to(route, type), route->world->to_device, element) & ~holders & ~fresh;
    if (takers != 0)
        add_class(list, holders, takers, nodes_of(route->world, fresh), type->wire_bytes);
}

static void list_elements(const struct route *route, struct element_classes *list)
{
    for (uint32_t t = 0; t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        if (type->key.to == SIDE_KEEPS_NONE)
            continue;
        const struct space_family *family = &route->space->families[route->space->items[type->items[0]].family];
        int64_t count = space_family_elements(family);
        for (int64_t e = 0; e < count; e++) {
            struct box element = box_whole(family->ndim, family->shape);
            int64_t rest = e;
            for (uint32_t d = family->ndim; d-- > 0; rest /= family->shape[d]) {
                element.lo[d] = rest % family->shape[d];
                element.hi[d] = element.lo[d] + 1;
            }
            add_element(route, type, &element, list);
        }
    }
}

static uint64_t bits_of(const uint32_t *numbers, uint32_t count)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < count; i++)
        bits |= UINT64_C(1) << numbers[i];
    return bits;
}

static void check_lacking(const struct world *world, const struct route_class *class)
{
    uint32_t nodes[64];
    uint64_t lacking = nodes_of(world, bits_of(class->takers, class->taker_count)) &
                       ~nodes_of(world, bits_of(class->holders, class->holder_count));
    uint32_t count = classes_lacking(world, class, false, nodes);
    CHECK(bits_of(nodes, count) == lacking && count == (uint32_t)__builtin_popcountll(lacking));
    count = classes_lacking(world, class, true, nodes);
    CHECK(bits_of(nodes, count) == (lacking & ~bits_of(class->made, class->made_count)));
}

static void check_classes(struct arena *arena, const struct route *route, const char *what)
{
    static struct element_classes want, got;
    struct classes cells, classes;
    uint64_t of_pieces = 0, of_cells = 0;
    memset(&want, 0, sizeof(want));
    memset(&got, 0, sizeof(got));
    classes_build(arena, route, &cells);
    classes_build_apart(arena, &cells, &classes);
    list_elements(route, &want);
    for (uint32_t c = 0; c < classes.count; c++) {
        const struct route_class *class = &classes.classes[c];
        add_class(&got, bits_of(class->holders, class->holder_count), bits_of(class->takers, class->taker_count),
                  bits_of(class->made, class->made_count), class->bytes);
        check_lacking(route->world, class);
    }
    CHECK_MSG(got.count == classes.count && got.count == want.count, "%s: %u classes, want %u", what, got.count,
              want.count);
    for (uint32_t c = 0; c < want.count; c++)
        add_class(&got, want.classes[c].holders, want.classes[c].takers, want.classes[c].made, -want.classes[c].bytes);
    for (uint32_t c = 0; c < got.count; c++)
        CHECK_MSG(got.classes[c].bytes == 0, "%s: %" PRId64 " bytes too many", what, (int64_t)got.classes[c].bytes);
    for (uint32_t c = 0; c < cells.count; c++)
        of_cells += cells.classes[c].bytes * cells.classes[c].taker_count;
    for (uint32_t t = 0; t < route->type_count; t++) {
        for (uint32_t p = 0; p < route->types[t].piece_count; p++) {
            const struct route_piece *piece = &route->types[t].pieces[p];
            of_pieces += piece->candidate_count > 0 ? (uint64_t)piece->cell->elements * route->types[t].wire_bytes : 0;
        }
    }
    CHECK_EQ_U64(of_cells, of_pieces);
}

static void classes_of_elements(void)
{
    static const char *const moves[][3] = {
        {"tests/planner/layouts", "rows-old", "rows-unlike"},
        {"tests/planner/layouts", "rows-unlike", "rows-old"},
        {"tests/planner/layouts", "rows-fsdp4", "rows-unlike"},
        {"tests/planner/layouts", "rows-old", "rows-fsdp8"},
        {"plans/golden", "dense-tp2-pp2", "dense-tp4-dp2"},
        {"plans/golden", "dense-tp4-dp2", "dense-zero3"},
        {"plans/golden", "dense-zero3", "dense-tp2-pp2"},
        {"plans/golden", "dense-tp2-pp2", "dense-made"},
        {"plans/golden", "dense-zero3", "dense-made"},
        {"plans/golden", "moe-ep2", "moe-ep4"},
        {"plans/golden", "moe-ep4", "moe-ep2"},
    };
    for (size_t m = 0; m < sizeof(moves) / sizeof(moves[0]); m++)
        rig_route(moves[m][0], moves[m][1], moves[m][2], NULL, check_classes);
}

/* ---- bounds against every routing ----------------------------------------------- */

/** 2 nodes of 2 devices, or one node of 4, or 4 nodes of 1. Each class is moved in slices, each slice its own way. */
#define DEVICES      4
#define MOST_CLASSES 3
#define MOST_SLICES  3

/** A way for one slice: from whom each device gets it; itself: it holds it, or needs none. */
struct way {
    uint8_t from[DEVICES];
};

struct instance {
    struct cfg_machine machine;
    struct world_device devices[DEVICES];
    struct world world;
    struct side to;
    struct route route;
    uint32_t holders[MOST_CLASSES][DEVICES], takers[MOST_CLASSES][DEVICES];
    struct route_class list[MOST_CLASSES];
    struct classes classes;
    uint32_t slices[MOST_CLASSES];
    struct way ways[MOST_CLASSES][256];
    uint32_t way_count[MOST_CLASSES];
};

/** Least of the time and, apart from it, of the bytes between nodes, over what was tried. */
struct best {
    double seconds;
    uint64_t inter_node;
};

#define SLICE_BYTES 1000

/** Whether a device has the slice in the end. */
static bool reaches(const struct route_class *class, const struct way *way, uint32_t device)
{
    for (int hops = 0; hops < DEVICES; hops++) {
        if (bits_of(class->holders, class->holder_count) >> device & 1)
            return true;
        device = way->from[device];
    }
    return false;
}

/** All ways in which every taker gets a slice, through other devices if they like. */
static void list_ways(struct instance *instance, uint32_t c)
{
    const struct route_class *class = &instance->list[c];
    uint64_t held = bits_of(class->holders, class->holder_count), taken = bits_of(class->takers, class->taker_count);
    for (uint32_t code = 0; code < 256; code++) { /* two bits a device: its giver */
        struct way way;
        bool good = true;
        for (uint32_t d = 0; d < DEVICES; d++)
            way.from[d] = code >> 2 * d & 3;
        for (uint32_t d = 0; good && d < DEVICES; d++) {
            bool none = way.from[d] == d;
            good = (held >> d & 1) ? none : none ? !(taken >> d & 1) : reaches(class, &way, d);
        }
        if (good)
            instance->ways[c][instance->way_count[c]++] = way;
    }
}

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

static void take_way(const struct instance *instance, const struct way *way, int sign, double loads[4][DEVICES],
                     uint64_t *inter_node)
{
    for (uint32_t d = 0; d < DEVICES; d++) {
        uint32_t from = way->from[d];
        if (from == d)
            continue;
        bool inside = instance->devices[from].node == instance->devices[d].node;
        loads[inside ? 0 : 2][from] += sign;
        loads[inside ? 1 : 3][d] += sign;
        *inter_node += inside ? 0 : (uint64_t)(int64_t)sign;
    }
}

/** Try all ways for the slices from (class, slice) on. Slices of a class are alike: their ways ascend. */
static void search(const struct instance *instance, uint32_t c, uint32_t slice, uint32_t first_way,
                   double loads[4][DEVICES], uint64_t *inter_node, struct best *best)
{
    if (c == instance->classes.count) {
        double seconds = 0;
        for (uint32_t d = 0; d < DEVICES; d++) {
            double inside = instance->machine.intra_node;
            double network = instance->machine.inter_node;
            seconds = max_of(seconds, max_of(loads[0][d], loads[1][d]) * SLICE_BYTES / inside);
            seconds = max_of(seconds, max_of(loads[2][d], loads[3][d]) * SLICE_BYTES / network);
        }
        best->seconds = seconds < best->seconds ? seconds : best->seconds;
        best->inter_node = *inter_node < best->inter_node ? *inter_node : best->inter_node;
        return;
    }
    bool last = slice + 1 == instance->slices[c];
    for (uint32_t w = first_way; w < instance->way_count[c]; w++) {
        take_way(instance, &instance->ways[c][w], 1, loads, inter_node);
        search(instance, last ? c + 1 : c, last ? 0 : slice + 1, last ? 0 : w, loads, inter_node, best);
        take_way(instance, &instance->ways[c][w], -1, loads, inter_node);
    }
}

static void draw_class(struct rig_random *random, struct instance *instance, uint32_t c)
{
    struct route_class *class = &instance->list[c];
    uint32_t held = 1 + rig_draw(random, 14), taken = (1 + rig_draw(random, 15)) & ~held;
    taken = taken != 0 ? taken : 15 & ~held;
    *class = (struct route_class){.holders = instance->holders[c], .takers = instance->takers[c]};
    class->holder_set = c;
    for (uint32_t d = 0; d < DEVICES; d++) {
        if (held >> d & 1)
            instance->holders[c][class->holder_count++] = d;
        if (taken >> d & 1)
            instance->takers[c][class->taker_count++] = d;
    }
    class->bytes = class->leaving = (uint64_t)instance->slices[c] * SLICE_BYTES;
}

static void draw_instance(struct rig_random *random, struct instance *instance)
{
    static const uint32_t node_sizes[] = {2, 2, 2, 2, 4, 1, 3};
    uint32_t size = node_sizes[rig_draw(random, 7)], classes = 1 + rig_draw(random, MOST_CLASSES);
    memset(instance, 0, sizeof(*instance));
    instance->machine = (struct cfg_machine){.devices_per_node = size,
                                             .intra_node = 1000 * (1 + rig_draw(random, 9)),
                                             .inter_node = 1000,
                                             .node_inter_node = 1000 * size,
                                             .copy = 1e12,
                                             .unpack = 1e12,
                                             .device_to_host = 1e12};
    for (uint32_t d = 0; d < DEVICES; d++)
        instance->devices[d] = (struct world_device){.id = d, .node = d / size};
    instance->world = (struct world){.machines = &instance->machine,
                                     .device_count = DEVICES,
                                     .node_count = (DEVICES + size - 1) / size,
                                     .devices = instance->devices};
    instance->route = (struct route){.world = &instance->world, .to = &instance->to};
    instance->classes =
        (struct classes){.route = &instance->route, .count = classes, .set_count = classes, .classes = instance->list};
    for (uint32_t c = 0; c < classes; c++) {
        instance->slices[c] = classes == 1 ? 1 + rig_draw(random, MOST_SLICES) : 1;
        draw_class(random, instance, c);
        list_ways(instance, c);
    }
}

static void bounds_hold(void)
{
    static struct instance instance;
    struct rig_random random = {3};
    const int rounds = 400;
    int met = 0;
    for (int round = 0; round < rounds; round++) {
        struct arena arena;
        struct bounds bounds = {0};
        struct best best = {.seconds = 1e300, .inter_node = UINT64_MAX};
        double loads[4][DEVICES] = {{0}};
        uint64_t inter_node = 0;
        draw_instance(&random, &instance);
        arena_init(&arena);
        bounds_compute(&arena, &instance.classes, &bounds);
        arena_finish(&arena);
        search(&instance, 0, 0, 0, loads, &inter_node, &best);
        CHECK_MSG(bounds.seconds <= best.seconds, "round %d: %g s, beaten by %g s", round, bounds.seconds,
                  best.seconds);
        CHECK_MSG(bounds.inter_node == best.inter_node * SLICE_BYTES, "round %d: %" PRIu64 " bytes, %" PRIu64 " slices",
                  round, bounds.inter_node, best.inter_node);
        CHECK(bounds.reason.limit != LIMIT_NONE && bounds.reason.count > 0 && bounds.reason.bytes > 0);
        met += bounds.seconds > 0.999999 * best.seconds;
    }
    printf("# the bound is met in %d of %d\n", met, rounds);
    CHECK(3 * met > rounds);
}

static const struct test_case cases[] = {{"classes are those of the elements", classes_of_elements},
                                         {"no routing beats its bounds", bounds_hold}};
TEST_MAIN(cases)
