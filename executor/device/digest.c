/* SPDX-License-Identifier: Apache-2.0 */
#include "device/digest.h"

#include <string.h>

#ifdef SHUNT_HAVE_XXHASH
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "device/walk.h"

#define GATHER_BYTES 4096u
#define GATHER_BELOW 64u /* lines of units below this are put together first: an update costs more than the bytes */

bool digest_available(void)
{
    return true;
}

/* A line of small units. */
static void add_gathered(XXH3_state_t *state, const char *line, const struct walk *walk)
{
    char gathered[GATHER_BYTES];
    size_t used = 0;
    for (uint64_t i = 0; i < walk->count; i++) {
        if (used + walk->unit_bytes > sizeof(gathered)) {
            XXH3_64bits_update(state, gathered, used);
            used = 0;
        }
        memcpy(gathered + used, line + i * walk->a_step, walk->unit_bytes);
        used += walk->unit_bytes;
    }
    XXH3_64bits_update(state, gathered, used);
}

uint64_t digest_box(const void *data, const struct shunt_plan_view *view)
{
    struct walk walk;
    XXH3_state_t state;
    walk_init(&walk, view->ndim, view->elem_bytes, view->shape, view->stride, view->stride);
    if (walk.outer == 0 && walk.count == 1)
        return XXH3_64bits((const char *)data + walk.a, walk.unit_bytes);
    XXH3_64bits_reset(&state);
    do {
        const char *line = (const char *)data + walk.a;
        if (walk.unit_bytes < GATHER_BELOW && walk.count > 1) {
            add_gathered(&state, line, &walk);
            continue;
        }
        for (uint64_t i = 0; i < walk.count; i++)
            XXH3_64bits_update(&state, line + i * walk.a_step, walk.unit_bytes);
    } while (walk_next(&walk));
    return XXH3_64bits_digest(&state);
}

#else

bool digest_available(void)
{
    return false;
}

uint64_t digest_box(const void *data, const struct shunt_plan_view *view)
{
    (void)data, (void)view;
    return 0;
}

#endif
