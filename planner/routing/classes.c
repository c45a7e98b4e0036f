/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/classes.h"

#include <stdlib.h>
#include <string.h>

#include "routing/overlay.h"

/** Lists of numbers, each once: equal lists share one number. */
struct list {
    const uint32_t *items;
    uint32_t count;
};

struct list_table {
    VEC(struct list) lists;
    uint32_t *slots;   /* number + 1; 0: free */
    size_t slot_count; /* power of two */
};

static size_t hash_list(const struct list *list)
{
    uint64_t value = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        value = (value ^ list->items[i]) * UINT64_C(0x9e3779b97f4a7c15);
        value ^= value >> 32;
    }
    return (size_t)value;
}

static size_t find_slot(const struct list_table *table, const struct list *list)
{
    size_t slot = hash_list(list) & (table->slot_count - 1);
    for (; table->slots[slot] != 0; slot = (slot + 1) & (table->slot_count - 1)) {
        const struct list *other = &table->lists.items[table->slots[slot] - 1];
        if (other->count == list->count && memcmp(other->items, list->items, list->count * sizeof(uint32_t)) == 0)
            break;
    }
    return slot;
}

static void grow_slots(struct arena *arena, struct list_table *table)
{
    table->slot_count = table->slot_count == 0 ? 64 : 2 * table->slot_count;
    table->slots = ARENA_NEW(arena, uint32_t, table->slot_count);
    for (size_t l = 0; l < table->lists.count; l++)
        table->slots[find_slot(table, &table->lists.items[l])] = (uint32_t)l + 1;
}

/** Number of a list, which is copied when it is new and `copy` says so. */
static uint32_t intern_list(struct arena *arena, struct list_table *table, const uint32_t *items, uint32_t count,
                            bool copy)
{
    struct list list = {items, count};
    if (2 * (table->lists.count + 1) > table->slot_count)
        grow_slots(arena, table);
    size_t slot = find_slot(table, &list);
    if (table->slots[slot] != 0)
        return table->slots[slot] - 1;
    if (copy && count > 0)
        list.items = memcpy(ARENA_NEW(arena, uint32_t, count), items, count * sizeof(uint32_t));
    *VEC_PUSH(arena, &table->lists) = list;
    table->slots[slot] = (uint32_t)table->lists.count;
    return (uint32_t)table->lists.count - 1;
}

/** A cell and its class, before the cells are sorted by class. */
struct sorted_cell {
    uint32_t class;
    struct class_cell cell;
};

struct sorter {
    const struct route *route;
    struct list_table sets, keys; /* sets of devices or nodes; classes by their three sets */
    VEC(struct route_class) classes;
    VEC(struct sorted_cell) cells;
    uint32_t *taken;       /* devices of the cell at hand */
    uint32_t *made;        /* nodes of the same */
    uint32_t *variant_set; /* of the type at hand, by old variant: 1 + the set of its devices; 0: not looked for yet */
    uint64_t hosted;       /* the same of those that are read from host memory */
    uint64_t leaving;      /* of the type at hand: bytes of one element of its items */
    uint8_t *placement_state; /* by new placement: whether its holdings overlap, when that is known */
    struct overlay *overlay;  /* of the new side of a type that does */
    bool overlap;             /* some type does */
    bool apart;               /* cut what overlaps */
};

/** Indices of a type's pieces that must be sent in the order of their cells; begin_out has cell_count + 1 entries. */
static uint32_t *order_by_cell(struct arena *arena, const struct route_type *type, uint32_t **begin_out)
{
    uint32_t *begin = ARENA_NEW(arena, uint32_t, (size_t)type->cell_count + 2) + 1;
    uint32_t *order = ARENA_NEW(arena, uint32_t, type->piece_count);
    for (uint32_t p = 0; p < type->piece_count; p++)
        begin[type->pieces[p].cell->number] += type->pieces[p].candidate_count > 0;
    uint32_t total = 0;
    for (uint32_t c = 0; c < type->cell_count; c++) {
        uint32_t count = begin[c];
        begin[c] = total;
        total += count;
    }
    for (uint32_t p = 0; p < type->piece_count; p++) {
        if (type->pieces[p].candidate_count > 0)
            order[begin[type->pieces[p].cell->number]++] = p;
    }
    *begin_out = begin - 1; /* each entry moved on to the end of its cell: the beginning of the next */
    return order;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/** Nodes where the new side of what is read covers a cell. */
static uint32_t list_made(const struct route *route, const struct route_type *type, const struct route_cell *cell,
                          uint32_t *nodes)
{
    const struct placement *fresh = route_fresh(route, type);
    uint32_t count = 0, distinct = 0;
    for (uint32_t f = 0; fresh != NULL && f < cell->fresh_count; f++) {
        const struct placement_variant *variant = &fresh->variants[cell->fresh[f].variant];
        for (uint32_t r = 0; r < variant->rank_count; r++)
            nodes[count++] = route->world->devices[route->world->to_device[variant->ranks[r]]].node;
    }
    if (count > 0)
        qsort(nodes, count, sizeof(*nodes), compare_numbers);
    for (uint32_t i = 0; i < count; i++) {
        if (distinct == 0 || nodes[distinct - 1] != nodes[i])
            nodes[distinct++] = nodes[i];
    }
    return distinct;
}

/** Bytes of one element of all items that are not derived, or from one that is not on the new side itself. */
static void sum_leaving(struct sorter *sorter, const struct route_type *type)
{
    const struct route *route = sorter->route;
    sorter->leaving = sorter->hosted = 0;
    for (uint32_t i = 0; i < type->item_count; i++) {
        const struct space_item *item = &route->space->items[type->items[i]];
        if (type->key.derived && route->to->item_placement[item->derived_from] != SIDE_KEEPS_NONE)
            continue;
        sorter->leaving += item->wire_bytes;
        if (side_tier(route->from, item->derived_from) == CFG_TIER_HOST)
            sorter->hosted += shunt_dtype_bytes(item->read_dtype);
    }
}

/** The set of a cell's holders. Where it has one variant, all cells of that have the same. */
static uint32_t find_holders(struct arena *arena, struct sorter *sorter, const struct route_piece *piece)
{
    uint32_t fresh = 0, *known = &fresh; /* 1 + set */
    if (piece->cell->holding_count == 1)
        known = &sorter->variant_set[piece->cell->holdings[0].variant];
    if (*known == 0)
        *known = 1 + intern_list(arena, &sorter->sets, piece->candidates, piece->candidate_count, false);
    return *known - 1;
}

/** The class of a cell with these holders and `count` takers in sorter->taken, made when it is the first of its kind. */
static uint32_t find_class(struct arena *arena, struct sorter *sorter, const struct route_type *type,
                           const struct route_piece *piece, uint32_t count)
{
    uint32_t made = list_made(sorter->route, type, piece->cell, sorter->made);
    const uint32_t key[] = {find_holders(arena, sorter, piece),
                            intern_list(arena, &sorter->sets, sorter->taken, count, true),
                            intern_list(arena, &sorter->sets, sorter->made, made, true)};
    uint32_t number = intern_list(arena, &sorter->keys, key, 3, true);
    if (number == sorter->classes.count) {
        const struct list *sets = sorter->sets.lists.items;
        *VEC_PUSH(arena, &sorter->classes) = (struct route_class){.holder_set = key[0],
                                                                  .holders = sets[key[0]].items,
                                                                  .holder_count = sets[key[0]].count,
                                                                  .takers = sets[key[1]].items,
                                                                  .taker_count = sets[key[1]].count,
                                                                  .made = sets[key[2]].items,
                                                                  .made_count = sets[key[2]].count};
    }
    return number;
}

static void add_bytes(struct sorter *sorter, const struct route_type *type, uint32_t class, int64_t elements)
{
    sorter->classes.items[class].bytes += (uint64_t)elements * type->wire_bytes;
    sorter->classes.items[class].leaving += (uint64_t)elements * sorter->leaving;
    sorter->classes.items[class].hosted += (uint64_t)elements * sorter->hosted;
}

static void sort_cell(struct arena *arena, struct sorter *sorter, const struct route_type *type, const uint32_t *pieces,
                      uint32_t count)
{
    const struct route_piece *first = &type->pieces[pieces[0]];
    for (uint32_t i = 0; i < count; i++)
        sorter->taken[i] = type->pieces[pieces[i]].taker;
    uint32_t class = find_class(arena, sorter, type, first, count);
    sorter->classes.items[class].cell_count++;
    add_bytes(sorter, type, class, first->cell->elements);
    *VEC_PUSH(arena, &sorter->cells) = (struct sorted_cell){
        .class = class, .cell = {.type = (uint32_t)(type - sorter->route->types), .pieces = pieces}};
}

/* ---- bytes that cells of different takers share -------------------------------- */

/** Whether a set of devices, given by the ranks of its variants, has one. */
static bool is_made_on(const struct route *route, const struct route_type *type, const struct route_cell *cell,
                       uint32_t device)
{
    const struct placement *fresh = route_fresh(route, type);
    uint32_t rank = route->world->devices[device].to_rank;
    if (fresh == NULL || rank == WORLD_NO_RANK)
        return false;
    uint32_t variant = placement_variant_of(fresh, rank);
    return variant != PLACEMENT_NO_VARIANT && route_find_holding(cell->fresh, cell->fresh_count, variant) != NULL;
}

/** Append the devices of a new variant that must get a cell from another one. @return their number */
static uint32_t list_takers(const struct route *route, const struct route_type *type, const struct route_piece *piece,
                            uint32_t variant, uint32_t *devices)
{
    const struct placement_variant *record = &route_to(route, type)->variants[variant];
    uint32_t count = 0;
    for (uint32_t r = 0; r < record->rank_count; r++) {
        uint32_t device = route->world->to_device[record->ranks[r]];
        bool held =
            bsearch(&device, piece->candidates, piece->candidate_count, sizeof(device), compare_numbers) != NULL;
        if (!held && !is_made_on(route, type, piece->cell, device))
            devices[count++] = device;
    }
    return count;
}

/** A part of a cell that lies in a fixed set of new holdings. It counts for the first variant that must get it. */
static void sort_part(struct arena *arena, struct sorter *sorter, const struct route_type *type,
                      const struct route_piece *piece, const struct route_cell *part)
{
    struct box common;
    if (!box_intersect(&piece->cell->box, &part->box, &common))
        return;
    uint32_t count = 0;
    for (uint32_t h = 0; h < part->holding_count; h++) {
        uint32_t variant = part->holdings[h].variant;
        uint32_t more = list_takers(sorter->route, type, piece, variant, &sorter->taken[count]);
        if (more > 0 && variant < piece->cell->to_variant)
            return;
        count += more;
    }
    qsort(sorter->taken, count, sizeof(*sorter->taken), compare_numbers);
    add_bytes(sorter, type, find_class(arena, sorter, type, piece, count), box_volume(&common));
}

/** Cut the cell along all new holdings. */
static void sort_parts(struct arena *arena, struct sorter *sorter, const struct route_type *type,
                       const struct route_piece *piece)
{
    const struct placement *to = route_to(sorter->route, type);
    const struct route_cell *cell = piece->cell;
    cell_list parts = {0};
    overlay_holding(arena, sorter->overlay, to, cell->to_variant, cell->to_holding, &parts);
    for (size_t p = 0; p < parts.count; p++)
        sort_part(arena, sorter, type, piece, &parts.items[p]);
}

/** Elements of all variants together, each of which counts its own once. */
static int64_t placement_elements(const struct placement *placement)
{
    int64_t elements = 0;
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        for (uint32_t h = 0; h < placement->variants[v].holding_count; h++)
            elements += box_volume(&placement->variants[v].holdings[h].box);
    }
    return elements;
}

/** Whether new holdings of a type share bytes. A side that covers its tensors with no element to spare has none. */
static bool overlaps(struct arena *arena, struct sorter *sorter, const struct route_type *type)
{
    enum { UNKNOWN, APART, OVERLAP };
    const struct space *space = sorter->route->space;
    const struct placement *to = route_to(sorter->route, type);
    uint8_t *state = &sorter->placement_state[type->key.to];
    if (*state == UNKNOWN) {
        struct overlay overlay = {.apart = true};
        if (placement_elements(to) > space_family_elements(&space->families[space->items[type->items[0]].family]))
            overlay_init(arena, to, &overlay);
        *state = overlay.apart ? APART : OVERLAP;
    }
    return *state == OVERLAP;
}

static void sort_type(struct arena *arena, struct sorter *sorter, const struct route_type *type)
{
    struct overlay overlay;
    uint32_t *begin, *order = order_by_cell(arena, type, &begin);
    if (type->piece_count == 0)
        return;
    sum_leaving(sorter, type);
    sorter->variant_set = ARENA_NEW(arena, uint32_t, route_from(sorter->route, type)->variant_count);
    bool overlap = overlaps(arena, sorter, type);
    sorter->overlap = sorter->overlap || overlap;
    if (overlap && sorter->apart) {
        overlay_init(arena, route_to(sorter->route, type), &overlay);
        sorter->overlay = &overlay;
    }
    for (uint32_t c = 0; c < type->cell_count; c++) {
        const uint32_t *pieces = &order[begin[c]];
        uint32_t count = begin[c + 1] - begin[c];
        if (count > 0 && overlap && sorter->apart)
            sort_parts(arena, sorter, type, &type->pieces[pieces[0]]);
        else if (count > 0)
            sort_cell(arena, sorter, type, pieces, count);
    }
}

/** Hand the cells out to their classes, by counting. */
static void deal_cells(struct arena *arena, struct sorter *sorter)
{
    struct class_cell *cells = ARENA_NEW(arena, struct class_cell, sorter->cells.count);
    uint32_t *next = ARENA_NEW(arena, uint32_t, sorter->classes.count), total = 0;
    for (size_t c = 0; c < sorter->classes.count; c++) {
        next[c] = total;
        sorter->classes.items[c].cells = &cells[total];
        total += sorter->classes.items[c].cell_count;
    }
    for (size_t i = 0; i < sorter->cells.count; i++)
        cells[next[sorter->cells.items[i].class]++] = sorter->cells.items[i].cell;
}

static void build(struct arena *arena, const struct route *route, bool apart, struct classes *classes_out)
{
    uint32_t devices = route->world->device_count;
    struct sorter sorter = {.route = route,
                            .apart = apart,
                            .placement_state = ARENA_NEW(arena, uint8_t, route->to->placement_count),
                            .taken = ARENA_NEW(arena, uint32_t, devices),
                            .made = ARENA_NEW(arena, uint32_t, devices)};
    for (uint32_t t = 0; t < route->type_count; t++)
        sort_type(arena, &sorter, &route->types[t]);
    deal_cells(arena, &sorter);
    *classes_out = (struct classes){.route = route,
                                    .overlap = sorter.overlap && !apart,
                                    .count = (uint32_t)sorter.classes.count,
                                    .set_count = (uint32_t)sorter.sets.lists.count,
                                    .classes = sorter.classes.items};
}

void classes_build(struct arena *arena, const struct route *route, struct classes *classes_out)
{
    build(arena, route, false, classes_out);
}

void classes_build_apart(struct arena *arena, const struct classes *cells, struct classes *classes_out)
{
    *classes_out = *cells;
    if (cells->overlap)
        build(arena, cells->route, true, classes_out);
}

/** Whether an ascending list has a number; moves on to it. */
static bool walk_to(const uint32_t *items, uint32_t count, uint32_t number, uint32_t *at)
{
    while (*at < count && items[*at] < number)
        (*at)++;
    return *at < count && items[*at] == number;
}

uint32_t classes_lacking(const struct world *world, const struct route_class *class, bool unless_made,
                         uint32_t *nodes_out)
{
    uint32_t count = 0, holder = 0, made = 0, last = UINT32_MAX;
    for (uint32_t t = 0; t < class->taker_count; t++) {
        uint32_t node = world->devices[class->takers[t]].node;
        if (node == last)
            continue;
        last = node;
        while (holder < class->holder_count && world->devices[class->holders[holder]].node < node)
            holder++;
        bool held = holder < class->holder_count && world->devices[class->holders[holder]].node == node;
        if (!held && !(unless_made && walk_to(class->made, class->made_count, node, &made)))
            nodes_out[count++] = node;
    }
    return count;
}
