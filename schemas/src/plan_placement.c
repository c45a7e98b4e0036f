/* SPDX-License-Identifier: Apache-2.0 */
/** The statement of a plan about how its new ranks came to their devices, and its check. plan-format.md, 2.4. */
#include "plan_placement.h"

#include <inttypes.h>
#include <string.h>

#include "shunt/escape.h"

/* Digits up to `end`, without a leading zero, of a number below 2^63; false when there is none. */
static bool take_number(const char **at, char end, uint64_t *value_out)
{
    uint64_t value = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (value > (INT64_MAX - 9) / 10 || (digit > *at && value == 0))
            return false;
        value = 10 * value + (uint64_t)(*digit - '0');
    }
    if (digit == *at || *digit != end)
        return false;
    *at = digit + 1;
    *value_out = value;
    return true;
}

static bool read_statement(const char *text, struct shunt_plan_placement *placement_out)
{
    const char *tab = strchr(text, '\t');
    if (tab == NULL || tab == text)
        return false;
    for (const char *at = text; at < tab; at++) {
        if (shunt_control_bytes(at) > 0)
            return false;
    }
    *placement_out = (struct shunt_plan_placement){.method = text, .method_bytes = (uint32_t)(tab - text)};
    tab++;
    return take_number(&tab, '\t', &placement_out->moved_fixed) &&
           take_number(&tab, '\t', &placement_out->cost_picoseconds) &&
           take_number(&tab, '\0', &placement_out->bound_picoseconds);
}

bool shunt_plan_get_placement(const struct shunt_plan *plan, struct shunt_plan_placement *placement_out)
{
    const char *text = shunt_plan_string(plan, shunt_plan_get_summary(plan)->placement);
    return text[0] != '\0' && read_statement(text, placement_out);
}

bool schema_check_placement(const struct plan_site *site, const char *text)
{
    struct shunt_plan_placement placement;
    if (text[0] == '\0')
        return true;
    if (!read_statement(text, &placement))
        return schema_refuse(site, "placement is not a method and three numbers");
    if (placement.bound_picoseconds > placement.cost_picoseconds)
        return schema_refuse(site, "placement: the bound %" PRIu64 " is above the cost %" PRIu64,
                             placement.bound_picoseconds, placement.cost_picoseconds);
    return true;
}
