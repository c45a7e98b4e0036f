/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt inspect PLAN`: the people's page and the JSON object, both from the table of figures. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "beside_print.h"
#include "dropped.h"
#include "explain_print.h"
#include "figures.h"
#include "inspect.h"
#include "spilled.h"

#define SHORT_DIGEST 12 /* hexadecimal digits shown of a digest */

static void print_head(const struct figures *f, const char *path)
{
    printf("plan %.*s  %s  (%s, format %s)\n\n", SHORT_DIGEST, f->plan_id.s, path, fmt_bytes(f->file_bytes).s,
           f->format_version);
    fmt_put_name(stdout, "  model      ", f->model, "\n");
    fmt_put_name(stdout, "  move       ", f->from, " -> ");
    fmt_put_name(stdout, "", f->to, "\n");
    fmt_put_name(stdout, "  cluster    ", f->cluster, "\n");
    printf("  devices    %s, ranks %s -> %s\n", fmt_count(f->devices).s, fmt_count(f->from_ranks).s,
           fmt_count(f->to_ranks).s);
}

/* "98.0 % of needed, each crossing counted" */
static void print_remark(const struct figures *f, const struct figure *figure)
{
    const char *between = "   ";

    if (figure->of != NULL) {
        double of = (double)*(const uint64_t *)((const char *)f + figure->of_offset);
        if (of > 0) {
            printf("%s%s of %s", between, fmt_percent(figure_number(f, figure) / of).s, figure->of);
            between = ", ";
        }
    }
    if (figure->note != NULL)
        printf("%s%s", between, figure->note);
    putchar('\n');
}

static void print_figure(const struct figures *f, const struct figure *figure)
{
    if (figure_is_text(figure)) {
        printf("  %-18s ", figure->label);
        fmt_put_name(stdout, "", figure_string(f, figure), "\n");
        return;
    }
    printf("  %-18s %11s", figure->label, figure_format(f, figure).s);
    if (figure->type == FIGURE_BYTES)
        printf(" %20s", fmt_count(figure_whole(f, figure)).s);
    else if (figure->note != NULL)
        printf(" %20s", "");
    print_remark(f, figure);
}

static void print_figures(const struct figures *f)
{
    const char *section = "";

    for (size_t i = 0; i < figure_count; i++) {
        const struct figure *figure = &figure_table[i];
        if (figure->label == NULL || (!f->placed && strcmp(figure->section, "place") == 0))
            continue;
        if (strcmp(figure->section, section) != 0) {
            section = figure->section;
            printf("\n%s\n", section);
        }
        print_figure(f, figure);
    }
}

static void print_safety(const struct figures *f)
{
    uint32_t until = f->summary.rollback_until_round;

    printf("\nsafety\n");
    if (until == 0)
        printf("  rollback     no: the first round already changes the old side\n");
    else if (until >= f->rounds)
        printf("  rollback     in all %s rounds dropping the new side restores the old one;\n"
               "               the old side is never touched\n",
               fmt_count(f->rounds).s);
    else
        printf("  rollback     until round %s of %s dropping the new side restores the old one;\n"
               "               the old side is intact until then\n",
               fmt_count(until).s, fmt_count(f->rounds).s);
    printf("  replicas     %s\n",
           f->summary.replicas_checked ? "compared byte for byte" : "taken as declared, not compared");
    printf("  digests      model %.*s  from %.*s  to %.*s  cluster %.*s\n", SHORT_DIGEST, f->model_digest.s,
           SHORT_DIGEST, f->from_digest.s, SHORT_DIGEST, f->to_digest.s, SHORT_DIGEST, f->cluster_digest.s);
}

void inspect_page(const struct shunt_plan *plan, const char *path)
{
    struct figures figures;

    figures_get(plan, &figures);
    print_head(&figures, path);
    spilled_print("  spilled    ", plan);
    dropped_print("  states     ", plan);
    print_figures(&figures);
    explain_print_plan(plan);
    beside_print_plan(plan);
    print_safety(&figures);
}

void inspect_json(const struct shunt_plan *plan)
{
    struct figures figures;
    struct json json;

    figures_get(plan, &figures);
    json_init(&json, stdout, true);
    json_object_begin(&json);
    figures_json(&json, &figures);
    explain_json_plan(&json, plan);
    spilled_json(&json, plan);
    dropped_json(&json, plan);
    beside_json_plan(&json, plan);
    json_object_end(&json);
    json_finish(&json);
}
