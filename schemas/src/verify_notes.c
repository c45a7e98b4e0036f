/* SPDX-License-Identifier: Apache-2.0 */
/** The statement about the state beside the tensors against the tensors: what is copied is there, the rest is not. */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_internal.h"

static uint32_t count_notes(const char *text)
{
    struct shunt_plan_note note;
    uint32_t count = 0;
    while (shunt_plan_next_note(&text, &note))
        count++;
    return count;
}

static int compare_notes(const void *a_, const void *b_)
{
    const struct shunt_plan_note *a = a_, *b = b_;
    uint32_t bytes = a->name_bytes < b->name_bytes ? a->name_bytes : b->name_bytes;
    int order = memcmp(a->name, b->name, bytes);
    return order != 0 ? order : (a->name_bytes > b->name_bytes) - (a->name_bytes < b->name_bytes);
}

/* The statement's lines, sorted by name. */
static struct shunt_plan_note *list_notes(const char *text, uint32_t count)
{
    struct shunt_plan_note *notes = schema_alloc(count, sizeof(*notes));
    for (uint32_t n = 0; notes != NULL && n < count; n++)
        (void)shunt_plan_next_note(&text, &notes[n]);
    if (notes != NULL)
        qsort(notes, count, sizeof(*notes), compare_notes);
    return notes;
}

/* present[n]: a tensor has the name of note n. */
static void find_tensors(const struct verifier *v, const struct shunt_plan_note *notes, uint32_t count, bool *present)
{
    for (uint32_t t = 0; t < shunt_plan_tensor_count(v->plan); t++) {
        const char *name = shunt_plan_string(v->plan, shunt_plan_get_tensor(v->plan, t)->name);
        const struct shunt_plan_note key = {.name = name, .name_bytes = (uint32_t)strlen(name)};
        const struct shunt_plan_note *found = bsearch(&key, notes, count, sizeof(*notes), compare_notes);
        if (found != NULL)
            present[found - notes] = true;
    }
}

static void check_note(struct verifier *v, const struct shunt_plan_note *note, bool present)
{
    bool copied = shunt_plan_note_is(note->action, note->action_bytes, "copied");
    if (copied && !present)
        vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE, "state_notes says that %.*s is copied, no tensor has that name",
                 (int)note->name_bytes, note->name);
    if (!copied && present)
        vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE, "state_notes says that %.*s is %.*s, a tensor has that name",
                 (int)note->name_bytes, note->name, (int)note->action_bytes, note->action);
}

enum shunt_status vnotes_check(struct verifier *v)
{
    const char *text = shunt_plan_string(v->plan, v->summary->state_notes);
    uint32_t count = count_notes(text);
    if (count == 0)
        return SHUNT_OK;
    struct shunt_plan_note *notes = list_notes(text, count);
    bool *present = schema_alloc(count, sizeof(*present));
    enum shunt_status status = notes != NULL && present != NULL ? SHUNT_OK : SHUNT_ERR_NOMEM;
    if (status == SHUNT_OK)
        find_tensors(v, notes, count, present);
    for (uint32_t n = 0; status == SHUNT_OK && n < count; n++) {
        if (n > 0 && compare_notes(&notes[n - 1], &notes[n]) == 0)
            vproblem(v, SHUNT_RULE_SUMMARY, VNONE, VNONE, "state_notes names %.*s twice", (int)notes[n].name_bytes,
                     notes[n].name);
        check_note(v, &notes[n], present[n]);
    }
    free(notes);
    free(present);
    return status;
}
