/* SPDX-License-Identifier: Apache-2.0 */
/** Sources against every choice in small worlds, and within a hair of the least time in real moves. */

#include "harness.h"
#include "route_rig.h"
#include "routing/bound.h"
#include "routing/quota.h"

#define DEVICES      8
#define MOST_CLASSES 6
#define MOST_CELLS   3

/** Classes of a few cells each, without anything around them: one type a class. */
struct instance {
    struct cfg_machine machine;
    struct world_device devices[DEVICES];
    struct world world;
    struct space_item item;
    struct space space;
    struct side side;
    struct route route;
    struct route_type types[MOST_CLASSES];
    struct route_piece pieces[MOST_CLASSES][MOST_CELLS * DEVICES];
    struct route_cell cells[MOST_CLASSES][MOST_CELLS];
    uint32_t sources[MOST_CLASSES][MOST_CELLS * DEVICES], numbers[MOST_CLASSES][MOST_CELLS * DEVICES];
    uint32_t holders[MOST_CLASSES][DEVICES], takers[MOST_CLASSES][DEVICES], items[1];
    struct class_cell class_cells[MOST_CLASSES][MOST_CELLS];
    struct route_class list[MOST_CLASSES];
    struct classes classes;
};

static void draw_cells(struct rig_random *random, struct instance *instance, uint32_t c, uint32_t most_bytes)
{
    struct route_class *class = &instance->list[c];
    struct route_type *type = &instance->types[c];
    *type = (struct route_type){.item_count = 1,
                                .items = instance->items,
                                .wire_bytes = 1,
                                .pieces = instance->pieces[c],
                                .sources = instance->sources[c]};
    class->cells = instance->class_cells[c];
    class->cell_count = 1 + rig_draw(random, MOST_CELLS);
    for (uint32_t i = 0; i < class->cell_count; i++) {
        instance->cells[c][i] = (struct route_cell){.elements = 1 + rig_draw(random, most_bytes), .number = i};
        class->bytes += (uint64_t)instance->cells[c][i].elements;
        instance->class_cells[c][i] =
            (struct class_cell){.type = c, .pieces = &instance->numbers[c][i * class->taker_count]};
        for (uint32_t t = 0; t < class->taker_count; t++) {
            instance->numbers[c][type->piece_count] = type->piece_count;
            type->pieces[type->piece_count++] = (struct route_piece){.cell = &instance->cells[c][i],
                                                                     .taker = class->takers[t],
                                                                     .candidate_count = class->holder_count,
                                                                     .candidates = class->holders};
        }
    }
}

static void draw_instance(struct rig_random *random, struct instance *instance, uint32_t classes, uint32_t most_takers,
                          uint32_t most_bytes)
{
    memset(instance, 0, sizeof(*instance));
    instance->machine = (struct cfg_machine){.devices_per_node = 1 + rig_draw(random, 4),
                                             .intra_node = 1 + rig_draw(random, 4),
                                             .inter_node = 1,
                                             .node_inter_node = 1e9,
                                             .copy = 1e9,
                                             .unpack = 1e9,
                                             .device_to_host = 1e9};
    for (uint32_t d = 0; d < DEVICES; d++)
        instance->devices[d] =
            (struct world_device){.id = d, .node = (uint32_t)(d / instance->machine.devices_per_node)};
    instance->world = (struct world){.machines = &instance->machine,
                                     .device_count = DEVICES,
                                     .node_count = instance->devices[DEVICES - 1].node + 1,
                                     .devices = instance->devices};
    instance->item.wire_bytes = 1;
    instance->space = (struct space){.item_count = 1, .items = &instance->item};
    instance->route = (struct route){.space = &instance->space,
                                     .from = &instance->side,
                                     .to = &instance->side,
                                     .world = &instance->world,
                                     .type_count = classes,
                                     .types = instance->types};
    instance->classes =
        (struct classes){.route = &instance->route, .count = classes, .set_count = classes, .classes = instance->list};
    for (uint32_t c = 0; c < classes; c++) {
        struct route_class *class = &instance->list[c];
        *class = (struct route_class){.holder_set = c, .holders = instance->holders[c], .takers = instance->takers[c]};
        uint32_t held = 0, taken = 0, few = 1 + rig_draw(random, 3), many = 1 + rig_draw(random, most_takers);
        while (held == 0 || few-- > 0)
            held |= 1u << rig_draw(random, DEVICES / 2);
        while ((taken & ~held) == 0 || many-- > 0)
            taken |= 1u << rig_draw(random, DEVICES);
        taken &= ~held;
        for (uint32_t d = 0; d < DEVICES; d++) {
            if (held >> d & 1)
                instance->holders[c][class->holder_count++] = d;
            if (taken >> d & 1)
                instance->takers[c][class->taker_count++] = d;
        }
        draw_cells(random, instance, c, most_bytes);
    }
}

static bool same_node(const struct instance *instance, uint32_t a, uint32_t b)
{
    return instance->devices[a].node == instance->devices[b].node;
}

static double rate_of(const struct instance *instance, bool network)
{
    return network ? instance->machine.inter_node : instance->machine.intra_node;
}

/** Holders that may send to a taker, as bits: those of its node, else all. */
static uint32_t givers_of(const struct instance *instance, const struct route_class *class, uint32_t taker,
                          bool *network_out)
{
    uint32_t all = 0, inside = 0;
    for (uint32_t h = 0; h < class->holder_count; h++) {
        all |= 1u << class->holders[h];
        inside |= same_node(instance, class->holders[h], taker) ? 1u << class->holders[h] : 0;
    }
    *network_out = inside == 0;
    return inside != 0 ? inside : all;
}

/** Over all sets of ports: what can leave through them alone, and what each device must get. */
static double least_seconds(const struct instance *instance)
{
    double least = 0;
    for (uint32_t set = 1; set < 1u << DEVICES; set++) {
        double out[2] = {0}, in[2] = {0};
        for (uint32_t c = 0; c < instance->classes.count; c++) {
            const struct route_class *class = &instance->list[c];
            for (uint32_t t = 0; t < class->taker_count; t++) {
                bool network;
                uint32_t givers = givers_of(instance, class, class->takers[t], &network);
                out[network] += (givers & ~set) == 0 ? (double)class->bytes : 0;
                in[network] += set == 1u << class->takers[t] ? (double)class->bytes : 0;
            }
        }
        for (int network = 0; network < 2; network++) {
            double rate = rate_of(instance, network);
            least = out[network] / rate / __builtin_popcount(set) > least
                        ? out[network] / rate / __builtin_popcount(set)
                        : least;
            least = in[network] / rate > least ? in[network] / rate : least;
        }
    }
    return least;
}

/** Loads of the ports by kind and device, out and in. */
struct loads {
    double out[2][DEVICES], in[2][DEVICES];
};

static double busiest(const struct instance *instance, const struct loads *loads)
{
    double seconds = 0;
    for (int network = 0; network < 2; network++) {
        for (uint32_t d = 0; d < DEVICES; d++) {
            double most =
                loads->out[network][d] > loads->in[network][d] ? loads->out[network][d] : loads->in[network][d];
            seconds = most / rate_of(instance, network) > seconds ? most / rate_of(instance, network) : seconds;
        }
    }
    return seconds;
}

/** Check each source, and count what it sends. */
static struct loads loads_of(const struct instance *instance)
{
    struct loads loads = {0};
    for (uint32_t c = 0; c < instance->classes.count; c++) {
        for (uint32_t p = 0; p < instance->types[c].piece_count; p++) {
            const struct route_piece *piece = &instance->types[c].pieces[p];
            uint32_t source = instance->sources[c][p];
            bool network;
            uint32_t givers = givers_of(instance, &instance->list[c], piece->taker, &network);
            CHECK_MSG(source < DEVICES && (givers >> source & 1), "device %u", source);
            loads.out[network][source] += (double)piece->cell->elements;
            loads.in[network][piece->taker] += (double)piece->cell->elements;
        }
    }
    return loads;
}

/** The best choice of sources for whole pieces from (class, piece) on. */
static void search(const struct instance *instance, uint32_t c, uint32_t p, struct loads *loads, double floor,
                   double *best)
{
    if (*best <= floor)
        return;
    if (c == instance->classes.count) {
        double seconds = busiest(instance, loads);
        *best = seconds < *best ? seconds : *best;
        return;
    }
    const struct route_piece *piece = &instance->types[c].pieces[p];
    bool network, last = p + 1 == instance->types[c].piece_count;
    uint32_t givers = givers_of(instance, &instance->list[c], piece->taker, &network);
    double bytes = (double)piece->cell->elements, rate = rate_of(instance, network);
    loads->in[network][piece->taker] += bytes;
    for (uint32_t s = 0; s < DEVICES; s++) {
        if (!(givers >> s & 1) || (loads->out[network][s] + bytes) / rate >= *best)
            continue;
        loads->out[network][s] += bytes;
        search(instance, last ? c + 1 : c, last ? 0 : p + 1, loads, floor, best);
        loads->out[network][s] -= bytes;
    }
    loads->in[network][piece->taker] -= bytes;
}

static void choose(const struct instance *instance, struct route_quotas *figures)
{
    struct arena arena;
    arena_init(&arena);
    quota_choose(&arena, &instance->classes, figures);
    arena_finish(&arena);
}

static void least_times(void)
{
    static struct instance instance;
    struct rig_random random = {5};
    int limits[5] = {0};
    for (int round = 0; round < 400; round++) {
        struct route_quotas figures;
        draw_instance(&random, &instance, 1 + rig_draw(&random, MOST_CLASSES), 6, 1000000000);
        choose(&instance, &figures);
        struct loads loads = loads_of(&instance);
        double want = least_seconds(&instance), got = busiest(&instance, &loads);
        CHECK_MSG(figures.least_seconds <= want * (1 + 1e-12) && figures.least_seconds >= want * (1 - 1e-6),
                  "round %d: %.9g s, want %.9g s", round, figures.least_seconds, want);
        CHECK_MSG(figures.seconds == got && got >= want * (1 - 1e-12), "round %d: %.9g s, want %.9g s", round,
                  figures.seconds, got);
        CHECK(figures.least.limit != LIMIT_NONE && figures.least.count > 0 && figures.least.first < DEVICES);
        limits[figures.least.limit]++;
    }
    for (int limit = LIMIT_INSIDE_IN; limit <= LIMIT_NETWORK_OUT; limit++)
        CHECK_MSG(limits[limit] > 0, "limit %d", limit);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void whole_pieces(void)
{
    enum { ROUNDS = 300 };
    static struct instance instance;
    static double gaps[ROUNDS];
    struct rig_random random = {9};
    for (int round = 0; round < ROUNDS; round++) {
        struct route_quotas figures;
        struct loads loads = {0};
        draw_instance(&random, &instance, 1 + rig_draw(&random, 3), 2, 20);
        choose(&instance, &figures);
        double best = figures.seconds + 1e-9; /* what is worse need not be looked at */
        search(&instance, 0, 0, &loads, figures.least_seconds, &best);
        CHECK_MSG(figures.seconds >= best && best >= figures.least_seconds * (1 - 1e-12), "round %d: %g, best %g, %g",
                  round, figures.seconds, best, figures.least_seconds);
        gaps[round] = figures.seconds / best - 1;
    }
    qsort(gaps, ROUNDS, sizeof(*gaps), compare_doubles);
    printf("# over the best choice of whole pieces, the busiest port has %.1f %% more in the middle, %.1f %% in 90, "
           "%.1f %% in 99 of 100\n",
           100 * gaps[ROUNDS / 2], 100 * gaps[ROUNDS * 9 / 10], 100 * gaps[ROUNDS * 99 / 100]);
    CHECK(gaps[ROUNDS / 2] == 0 && gaps[ROUNDS * 99 / 100] <= 0.15);
}

/* ---- real moves ------------------------------------------------------------------ */

/** Moves of the standard ladder and of other shapes, and how much more than it must their busiest port may send. */
static const struct {
    const char *from, *to, *cluster;
    double gap;
    bool hosted; /* states in host memory set the time */
} moves[] = {
    {"gpt2-124m-8-tp4pp2", "gpt2-124m-8-tp2pp4", "local", 0.002},
    {"gpt2-124m-8-tp2pp4", "gpt2-124m-8-dp8", "local", 0.02}, /* a third of it is one tensor */
    {"gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp4pp2dp2", "a100", 0.002},
    {"gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp8pp2", "a100", 0.002},
    {"llama-2-7b-16-tp4pp2dp2", "llama-2-7b-16-dp16", "a800", 0.002},
    {"llama-2-7b-16-dp16", "llama-2-7b-16-tp4dp4", "a800", 0.002},
    {"llama-2-13b-16-tp8dp2", "llama-2-13b-16-tp2dp8", "a800", 0.002},
    {"llama-3-70b-64-tp4cp2pp4vpp5dp2", "llama-3-70b-64-tp4pp8vpp5dp2", "h100", 0.002},
    {"qwen3-30b-a3b-4-tp4ep4", "qwen3-30b-a3b-8-tp4dp2ep4", "a100", 0.002, true},
    {"qwen3-30b-a3b-16-pp2dp8ep8-weights", "qwen3-30b-a3b-16-tp8dp2-rollout", "h100", 0.002},
    {"qwen3-235b-a22b-256-tp4cp2pp16dp2ep8", "qwen3-235b-a22b-256-tp2pp8vpp4dp16ep32", "h100", 0.002},
    {"qwen3-235b-a22b-256-tp4cp2pp16dp2ep8", "qwen3-235b-a22b-128-tp2cp2pp8dp4ep16", "h100", 0.002},
    {"deepseek-v3-256-tp8pp16dp2ep8", "deepseek-v3-512-pp16dp32ep32", "h20", 0.002},
};
static size_t move_at_hand;

static void check_move(struct arena *arena, const struct route *route, const char *what)
{
    const struct route_quotas *quotas = &route->quotas;
    struct classes classes;
    struct bounds bounds;
    classes_build(arena, route, &classes);
    bounds_compute(arena, &classes, &bounds);
    printf("# %s: least %.6f s, %.4f %% over it, any plan %.6f s\n", what, quotas->least_seconds,
           100 * (quotas->seconds / quotas->least_seconds - 1), route->figures.lower_bound_seconds);
    CHECK_MSG(quotas->seconds >= quotas->least_seconds * (1 - 1e-12), "%s", what);
    CHECK_MSG(quotas->seconds <= quotas->least_seconds * (1 + moves[move_at_hand].gap), "%s", what);
    if (moves[move_at_hand].hosted)
        CHECK_MSG(bounds.reason.limit == LIMIT_HOST && bounds.seconds > quotas->seconds, "%s", what);
    else
        CHECK_MSG(bounds.reason.limit != LIMIT_HOST && quotas->least_seconds >= bounds.seconds, "%s", what);
}

static void real_moves(void)
{
    for (move_at_hand = 0; move_at_hand < sizeof(moves) / sizeof(moves[0]); move_at_hand++)
        rig_route("plans/layouts", moves[move_at_hand].from, moves[move_at_hand].to, moves[move_at_hand].cluster,
                  check_move);
}

static const struct test_case cases[] = {{"the least time is that of the tightest ports", least_times},
                                         {"whole pieces come near the best choice", whole_pieces},
                                         {"real moves are within a hair", real_moves}};
TEST_MAIN(cases)
