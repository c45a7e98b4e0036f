/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/memory.h"

#include <stdlib.h>
#include <string.h>

static bool list_add(struct memory_list *list, struct memory_item item)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity < 64 ? 64 : 2 * list->capacity;
        struct memory_item *items = realloc(list->items, capacity * sizeof(*items));
        if (items == NULL)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return true;
}

static bool on_device(const struct memory *memory)
{
    return memory->on != NULL && memory->on->ops->asynchronous;
}

static bool take_block(struct memory *memory, uint64_t bytes, struct memory_item *item)
{
    if (!on_device(memory))
        return pool_take(&memory->pool, bytes, &item->block);
    item->block.bytes = bytes;
    const struct device_ops *ops = memory->on->ops;
    return (item->host ? ops->alloc_host(memory->on, bytes, &item->block.data, NULL)
                       : ops->alloc(memory->on, memory->stream, bytes, &item->block.data, NULL)) == SHUNT_OK;
}

static void give_block(struct memory *memory, struct memory_item *item)
{
    if (!on_device(memory))
        pool_give(&memory->pool, &item->block);
    else if (item->host)
        memory->on->ops->free_host(memory->on, item->block.data, item->block.bytes);
    else
        memory->on->ops->free(memory->on, memory->stream, item->block.data, item->block.bytes);
    item->block.data = NULL;
}

static void free_item(struct memory *memory, struct memory_item *item)
{
    if (item->block.data != NULL)
        give_block(memory, item);
    free(item->name);
    *item = (struct memory_item){0};
}

void *memory_alloc(struct memory *memory, const char *name, bool host, uint64_t bytes)
{
    struct memory_item item = {.name = strdup(name), .host = host};
    if (item.name != NULL && take_block(memory, bytes, &item) && list_add(&memory->new_side, item))
        return item.block.data;
    free_item(memory, &item);
    return NULL;
}

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const struct memory_item *)a)->name, ((const struct memory_item *)b)->name);
}

const struct memory_item *memory_find(const struct memory *memory, const char *name)
{
    struct memory_item key = {.name = (char *)name};
    if (memory->old_side.count == 0)
        return NULL;
    return bsearch(&key, memory->old_side.items, memory->old_side.count, sizeof(key), compare_items);
}

void memory_release(struct memory *memory, const char *name)
{
    struct memory_item *item = (struct memory_item *)memory_find(memory, name);
    if (item != NULL && item->block.data != NULL)
        give_block(memory, item);
}

bool memory_turn(struct memory *memory)
{
    struct memory_list *old_side = &memory->old_side;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < old_side->count; i++) {
        if (old_side->items[i].block.data == NULL)
            free_item(memory, &old_side->items[i]);
        else
            old_side->items[kept++] = old_side->items[i];
    }
    old_side->count = kept;
    while (memory->new_side.count > 0) {
        if (!list_add(old_side, memory->new_side.items[memory->new_side.count - 1]))
            return false;
        memory->new_side.count--;
    }
    if (old_side->count > 0)
        qsort(old_side->items, old_side->count, sizeof(*old_side->items), compare_items);
    return true;
}

static void list_finish(struct memory *memory, struct memory_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free_item(memory, &list->items[i]);
    free(list->items);
    *list = (struct memory_list){0};
}

void memory_finish(struct memory *memory)
{
    list_finish(memory, &memory->old_side);
    list_finish(memory, &memory->new_side);
    pool_finish(&memory->pool);
}
