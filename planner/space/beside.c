/* SPDX-License-Identifier: Apache-2.0 */
#include "space/beside.h"

#include <stdarg.h>
#include <string.h>

#include "space/keys.h"

static char *print(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

static char *print(struct arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = ARENA_NEW(arena, char, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

char *beside_axes(struct arena *arena, const bool *per)
{
    char *text = print(arena, "%s", "");
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        if (per[k])
            text = print(arena, "%s%s%s", text, text[0] == '\0' ? "" : ", ", cfg_key_names[k]);
    }
    return text;
}

/** "pp 2, tp 4" */
static char *sizes_text(struct arena *arena, const struct cfg_layout *layout, const bool *per)
{
    char *text = print(arena, "%s", "");
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        if (per[k])
            text = print(arena, "%s%s%s %lld", text, text[0] == '\0' ? "" : ", ", cfg_key_names[k],
                         (long long)keys_size(layout, (enum cfg_key)k));
    }
    return text;
}

static bool same_sizes(const struct cfg_layout *from, const struct cfg_layout *to, const bool *per)
{
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        if (per[k] && keys_size(from, (enum cfg_key)k) != keys_size(to, (enum cfg_key)k))
            return false;
    }
    return true;
}

/* ---- one entry --------------------------------------------------------------------- */

static const char *with_remark(struct arena *arena, const char *why, const struct cfg_other *other)
{
    return other->why == NULL ? why : print(arena, "%s; %s", why, other->why);
}

static uint32_t count_members(const struct cfg_model *model, const char *group)
{
    uint32_t members = 0;
    for (uint32_t t = 0; t < model->tensor_count; t++)
        members += model->tensors[t].group != NULL && strcmp(model->tensors[t].group, group) == 0;
    return members;
}

static const char *copy_reason(struct arena *arena, const struct cfg_model *model, const struct cfg_other *other)
{
    if (other->identity == NULL)
        return with_remark(arena, "the same on every rank", other);
    return print(arena, "parameter group \"%s\" of %u entries of tensors: the same on every rank", other->identity,
                 count_members(model, other->name));
}

/** Why a keyed entry has no copy on the new side; NULL if it has one. */
static const char *change_of_keys(struct arena *arena, const struct cfg_layout *from, const struct cfg_layout *to,
                                  const struct cfg_other *other)
{
    const char *axes = beside_axes(arena, other->per);
    const struct cfg_layout *const sides[] = {from, to};
    for (int s = 0; s < 2; s++) {
        if (keys_rows(sides[s], other->per) == 0)
            return print(arena, "one per %s, whose sizes layout %s does not say", axes, sides[s]->name);
    }
    if (same_sizes(from, to, other->per))
        return NULL;
    return print(arena, "one per %s: %s becomes %s", axes, sizes_text(arena, from, other->per),
                 sizes_text(arena, to, other->per));
}

static enum shunt_status decide_keyed(struct arena *arena, const struct cfg_layout *from, const struct cfg_layout *to,
                                      const struct cfg_other *other, struct beside_note *note, struct shunt_err *err)
{
    static const char *const actions[] = {[CFG_OTHERWISE_LEAVE] = "left",
                                          [CFG_OTHERWISE_RESEED] = "reseeded",
                                          [CFG_OTHERWISE_RECOMPUTE] = "recomputed",
                                          [CFG_OTHERWISE_REFUSE] = ""};
    const char *change = change_of_keys(arena, from, to, other);
    if (change == NULL) {
        note->action = "copied";
        note->why = with_remark(arena,
                                print(arena, "one per %s: %s on both sides", beside_axes(arena, other->per),
                                      sizes_text(arena, from, other->per)),
                                other);
        return SHUNT_OK;
    }
    if (other->otherwise == CFG_OTHERWISE_REFUSE)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s: found %s of the model, %s, expected axes that keep their sizes (it says `otherwise: "
                          "refuse`)",
                          to->path, other->name, change);
    note->action = actions[other->otherwise];
    note->why = with_remark(arena, change, other);
    return SHUNT_OK;
}

static enum shunt_status decide_one(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                                    const struct cfg_layout *to, const struct cfg_other *other,
                                    struct beside_note *note, struct shunt_err *err)
{
    *note = (struct beside_note){.name = other->name};
    switch (other->policy) {
    case CFG_POLICY_COPY:
        note->action = "copied";
        note->why = copy_reason(arena, model, other);
        break;
    case CFG_POLICY_COPY_IF_SAME:
        return decide_keyed(arena, from, to, other, note, err);
    case CFG_POLICY_RECOMPUTE:
        note->action = "recomputed";
        note->why = other->why != NULL ? other->why : "the trainer derives it from what is copied";
        break;
    case CFG_POLICY_LEAVE:
        note->action = "left";
        note->why = other->why != NULL ? other->why : "the trainer deals with it";
        break;
    }
    return SHUNT_OK;
}

/* ---- all of them ------------------------------------------------------------------- */

enum shunt_status beside_decide(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                                const struct cfg_layout *to, struct beside *out, struct shunt_err *err)
{
    uint32_t others = cfg_other_count(model);
    struct beside beside = {.notes = ARENA_NEW(arena, struct beside_note, model->scalar_count + others),
                            .copied = ARENA_NEW(arena, const struct cfg_other *, others)};
    for (uint32_t s = 0; s < model->scalar_count; s++)
        beside.notes[beside.note_count++] =
            (struct beside_note){model->scalars[s].name, "copied", "the same on every rank"};
    for (uint32_t o = 0; o < others; o++) {
        const struct cfg_other *other = cfg_other_at(model, o);
        struct beside_note *note = &beside.notes[beside.note_count++];
        enum shunt_status status = decide_one(arena, model, from, to, other, note, err);
        if (status != SHUNT_OK)
            return status;
        if (strcmp(note->action, "copied") == 0)
            beside.copied[beside.copied_count++] = other;
    }
    *out = beside;
    return SHUNT_OK;
}

bool beside_has_left(const struct beside *beside, const char *name)
{
    for (uint32_t n = 0; n < beside->note_count; n++) {
        if (strcmp(beside->notes[n].name, name) == 0)
            return strcmp(beside->notes[n].action, "copied") != 0;
    }
    return false;
}

char *beside_text(struct arena *arena, const struct beside *beside)
{
    size_t size = 1, used = 0;
    for (uint32_t n = 0; n < beside->note_count; n++)
        size += strlen(beside->notes[n].name) + strlen(beside->notes[n].action) + strlen(beside->notes[n].why) + 3;
    char *text = ARENA_NEW(arena, char, size);
    for (uint32_t n = 0; n < beside->note_count; n++)
        used += (size_t)snprintf(text + used, size - used, "%s\t%s\t%s\n", beside->notes[n].name,
                                 beside->notes[n].action, beside->notes[n].why);
    return text;
}
