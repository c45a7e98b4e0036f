/* SPDX-License-Identifier: Apache-2.0 */
/** The statement of a plan about the state beside the tensors: its lines, and their check. plan-format.md, 2.4. */
#include "plan_notes.h"

#include <string.h>

#include "shunt/escape.h"

static const char *const actions[] = {"copied", "recomputed", "reseeded", "left"};

/* Cut off the text before `end`; false when there is no such byte in the line. */
static bool take(const char **at, char end, const char **text_out, uint32_t *bytes_out)
{
    const char *stop = *at;
    while (*stop != end && *stop != '\n' && *stop != '\0')
        stop++;
    if (*stop != end)
        return false;
    *text_out = *at;
    *bytes_out = (uint32_t)(stop - *at);
    *at = stop + 1;
    return true;
}

static bool take_line(const char **at, struct shunt_plan_note *note_out)
{
    return take(at, '\t', &note_out->name, &note_out->name_bytes) &&
           take(at, '\t', &note_out->action, &note_out->action_bytes) &&
           take(at, '\n', &note_out->why, &note_out->why_bytes);
}

bool shunt_plan_next_note(const char **at, struct shunt_plan_note *note_out)
{
    return **at != '\0' && take_line(at, note_out);
}

bool shunt_plan_note_is(const char *text, uint32_t bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

static bool is_action(const struct shunt_plan_note *note)
{
    for (size_t a = 0; a < sizeof(actions) / sizeof(actions[0]); a++) {
        if (shunt_plan_note_is(note->action, note->action_bytes, actions[a]))
            return true;
    }
    return false;
}

/* Control characters other than those that part the lines and their fields. */
static bool has_control(const char *begin, const char *end)
{
    for (const char *at = begin; at < end; at++) {
        if (*at != '\t' && *at != '\n' && shunt_control_bytes(at) > 0)
            return true;
    }
    return false;
}

bool schema_check_notes(const struct plan_site *site, const char *text)
{
    uint32_t line = 0;
    for (const char *at = text; *at != '\0'; line++) {
        const char *begin = at;
        struct shunt_plan_note note;
        if (!take_line(&at, &note))
            return schema_refuse(site, "state_notes: line %u is not a name, an action and a reason", line);
        if (note.name_bytes == 0 || note.why_bytes == 0)
            return schema_refuse(site, "state_notes: line %u has an empty name or reason", line);
        if (!is_action(&note))
            return schema_refuse(site, "state_notes: line %u: the action is none of copied, recomputed, reseeded, left",
                                 line);
        if (memchr(note.why, '\t', note.why_bytes) != NULL || has_control(begin, at))
            return schema_refuse(site, "state_notes: line %u has a control character", line);
    }
    return true;
}
