/* SPDX-License-Identifier: Apache-2.0 */
#include "compile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emit/digest.h"
#include "emit/file.h"
#include "place/place.h"
#include "routing/pool.h"
#include "routing/relay.h"
#include "routing/route.h"
#include "schedule/exact.h"
#include "schedule/schedule.h"
#include "shunt/workers.h"
#include "space/pair.h"

/** A document that is named by an option, or by a field of a layout. */
struct reference {
    const char *option; /* what the option says; NULL: not given */
    const struct cfg_layout *layout;
    const char *own; /* what the layout says; NULL: nothing */
    struct cfg_pos own_pos;
    const char *field, *folder; /* "model", "models" */
};

/** "layout.yaml:3:8: model", or the option; malloc'd, NULL when memory runs out. */
static char *name_place(const struct reference *reference)
{
    char *place = NULL;
    uint32_t line = reference->own_pos.line > 0 ? reference->own_pos.line : 1;
    uint32_t column = reference->own_pos.column > 0 ? reference->own_pos.column : 1;
    int length = reference->option != NULL
                     ? asprintf(&place, "--%s", reference->field)
                     : asprintf(&place, "%s:%u:%u: %s", reference->layout->path, line, column, reference->field);
    return length < 0 ? NULL : place;
}

/** Its path, malloc'd; NULL with diag written. */
static char *find_document(const struct reference *reference, FILE *diag)
{
    const char *name = reference->option != NULL ? reference->option : reference->own;
    char *place = name_place(reference), *path = NULL;
    if (place == NULL)
        fputs("out of memory\n", diag);
    else if (name == NULL)
        fprintf(diag, "%s: found nothing, expected the name of a %s document (or --%s)\n", place, reference->field,
                reference->field);
    else
        path = cfg_resolve_at(place, reference->option != NULL ? NULL : reference->layout->path, name,
                              reference->folder, diag);
    free(place);
    return path;
}

static enum shunt_status load_model(const struct compile_options *options, const struct cfg_layout *layout,
                                    struct cfg_model **model_out, FILE *diag)
{
    const struct reference reference = {options->model, layout, layout->model, layout->model_pos, "model", "models"};
    char *path = find_document(&reference, diag);
    if (path == NULL)
        return SHUNT_ERR_IO;
    enum shunt_status status = cfg_model_load(path, model_out, diag);
    free(path);
    return status;
}

static enum shunt_status load_cluster(const struct compile_options *options, struct compile_documents *documents,
                                      FILE *diag)
{
    const struct cfg_layout *layout =
        documents->from->cluster == NULL && documents->to->cluster != NULL ? documents->to : documents->from;
    const char *own = layout->cluster != NULL ? layout->cluster : "local";
    const struct reference reference = {options->cluster, layout, own, layout->cluster_pos, "cluster", "clusters"};
    char *path = find_document(&reference, diag);
    if (path == NULL)
        return SHUNT_ERR_IO;
    enum shunt_status status = cfg_cluster_load(path, &documents->cluster, diag);
    free(path);
    return status;
}

/** Both layouts must speak of one model: the same file, or two that mean the same. */
static enum shunt_status check_same_model(const struct compile_options *options,
                                          const struct compile_documents *documents, FILE *diag)
{
    struct cfg_model *other = NULL;
    uint8_t a[SHUNT_PLAN_DIGEST_BYTES], b[SHUNT_PLAN_DIGEST_BYTES];
    if (options->model != NULL || documents->to->model == NULL)
        return SHUNT_OK;
    enum shunt_status status = load_model(options, documents->to, &other, diag);
    if (status != SHUNT_OK)
        return status;
    status = digest_model(documents->model, a);
    if (status == SHUNT_OK)
        status = digest_model(other, b);
    if (status == SHUNT_OK && memcmp(a, b, sizeof(a)) != 0) {
        fprintf(diag, "%s:%u:%u: model: found %s (%s), expected the model of %s, %s (%s)\n", documents->to->path,
                documents->to->model_pos.line, documents->to->model_pos.column, other->name, other->path,
                documents->from->path, documents->model->name, documents->model->path);
        status = SHUNT_ERR_INPUT;
    }
    cfg_model_free(other);
    return status;
}

/** A plan is made for one cluster: both layouts must mean the same one, unless an option says which. */
static enum shunt_status check_same_cluster(const struct compile_options *options,
                                            const struct compile_documents *documents, FILE *diag)
{
    const struct cfg_layout *to = documents->to;
    const struct reference reference = {NULL, to, to->cluster, to->cluster_pos, "cluster", "clusters"};
    struct cfg_cluster *other = NULL;
    uint8_t a[SHUNT_PLAN_DIGEST_BYTES], b[SHUNT_PLAN_DIGEST_BYTES];
    if (options->cluster != NULL || options->any_cluster || documents->from->cluster == NULL || to->cluster == NULL)
        return SHUNT_OK;
    char *path = find_document(&reference, diag);
    enum shunt_status status = path == NULL ? SHUNT_ERR_IO : cfg_cluster_load(path, &other, diag);
    free(path);
    if (status != SHUNT_OK)
        return status;
    status = digest_cluster(documents->cluster, a);
    if (status == SHUNT_OK)
        status = digest_cluster(other, b);
    if (status == SHUNT_OK && memcmp(a, b, sizeof(a)) != 0) {
        fprintf(diag, "%s:%u:%u: cluster: found %s (%s), expected the cluster of %s, %s (%s), or --cluster\n", to->path,
                to->cluster_pos.line, to->cluster_pos.column, other->name, other->path, documents->from->path,
                documents->cluster->name, documents->cluster->path);
        status = SHUNT_ERR_INPUT;
    }
    cfg_cluster_free(other);
    return status;
}

/** A layout of the command line: a file, else a built-in's name. */
static enum shunt_status load_layout(const char *path, struct cfg_layout **layout_out, FILE *diag)
{
    if (access(path, F_OK) == 0 || strchr(path, '/') != NULL || strstr(path, ".yaml") != NULL)
        return cfg_layout_load(path, layout_out, diag);
    char *found = cfg_resolve_at(NULL, NULL, path, "layouts", diag);
    enum shunt_status status = found == NULL ? SHUNT_ERR_IO : cfg_layout_load(found, layout_out, diag);
    free(found);
    return status;
}

enum shunt_status compile_load(const struct compile_options *options, struct compile_documents *documents_out,
                               FILE *diag)
{
    struct compile_documents documents = {0};
    bool twice = strcmp(options->from_path, options->to_path) == 0;
    enum shunt_status status = load_layout(options->from_path, &documents.from, diag);
    if (status == SHUNT_OK || !twice) { /* the problems of one document are said once */
        enum shunt_status other = load_layout(options->to_path, &documents.to, diag);
        status = status == SHUNT_OK ? other : status;
    }
    if (status == SHUNT_OK)
        status =
            load_model(options, documents.from->model != NULL ? documents.from : documents.to, &documents.model, diag);
    if (status == SHUNT_OK)
        status = check_same_model(options, &documents, diag);
    if (status == SHUNT_OK)
        status = load_cluster(options, &documents, diag);
    if (status == SHUNT_OK)
        status = check_same_cluster(options, &documents, diag);
    if (status == SHUNT_OK)
        *documents_out = documents;
    else
        compile_unload(&documents);
    return status;
}

enum shunt_status compile_load_one(const struct compile_options *options, struct compile_documents *documents_out,
                                   FILE *diag)
{
    struct compile_documents documents = {0};
    enum shunt_status status = load_layout(options->from_path, &documents.from, diag);
    if (status == SHUNT_OK)
        status = load_model(options, documents.from, &documents.model, diag);
    if (status == SHUNT_OK)
        *documents_out = documents;
    else
        compile_unload(&documents);
    return status;
}

void compile_unload(struct compile_documents *documents)
{
    cfg_layout_free(documents->from);
    cfg_layout_free(documents->to);
    cfg_model_free(documents->model);
    cfg_cluster_free(documents->cluster);
    *documents = (struct compile_documents){0};
}

/** Put the new ranks on the devices that were chosen: the layout is then one that names them. */
static void take_devices(const struct place *place, struct cfg_layout *to, struct side *side)
{
    to->devices = place->devices;
    to->device_count = side->grid.rank_count;
    for (uint32_t r = 0; r < side->grid.rank_count; r++)
        side->grid.ranks[r].device = place->devices[r];
}

/** @param to  the new layout of the pair; changed if the ranks' devices are to be chosen */
static enum shunt_status choose_devices(struct arena *arena, const struct compile_options *options,
                                        const struct cfg_cluster *cluster, const struct pair *pair,
                                        struct cfg_layout *to, struct place **place_out, struct shunt_err *err)
{
    const struct spots_asked asked = {options->place_device_count, options->place_devices};
    if (!options->place_optimal)
        return SHUNT_OK;
    *place_out = ARENA_NEW(arena, struct place, 1);
    enum shunt_status status = place_choose(arena, pair, cluster, &asked, *place_out, err);
    if (status == SHUNT_OK)
        take_devices(*place_out, to, pair->to);
    return status;
}

/** The same move by other routes than the direct one, where they load the busiest port less: the best first. */
static const struct problem *list_others(struct arena *arena, const struct problem *direct)
{
    const struct route *relayed = relay_build(arena, direct->route);
    const struct route *pooled = pool_build(arena, relayed != NULL ? relayed : direct->route);
    const struct route *const routes[] = {relayed, pooled};
    const struct problem *list = NULL;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (routes[i] == NULL)
            continue;
        struct problem *problem = problem_build(arena, routes[i], direct->cap, direct->staging);
        problem->other = list;
        problem->threads = direct->threads;
        list = problem;
    }
    return list;
}

static enum shunt_status run_stages(struct arena *arena, const struct compile_options *options,
                                    const struct compile_documents *documents, struct output *output,
                                    struct shunt_err *err)
{
    struct cfg_layout to = *documents->to;
    struct pair pair;
    struct world *world;
    struct place *place = NULL;
    struct route *route;
    struct schedule schedule;
    enum shunt_status status = pair_build(arena, documents->model, documents->from, &to, &pair, err);
    if (status == SHUNT_OK)
        status = choose_devices(arena, options, documents->cluster, &pair, &to, &place, err);
    if (status == SHUNT_OK)
        status = world_build(arena, documents->cluster, pair.from, pair.to, &world, err);
    if (status == SHUNT_OK)
        status = route_build(arena, pair.space, pair.from, pair.to, world, &route, err);
    if (status != SHUNT_OK)
        return status;
    assert(place == NULL || place->moved == route->figures.needed_remote);
    struct problem *problem =
        problem_build(arena, route, options->cap_given ? options->cap : world_most_memory(world), options->staging);
    if (!options->staging_given)
        problem->staging = schedule_default_staging(problem);
    problem->may_spill = options->spill_host;
    problem->threads = options->threads > 0 ? options->threads : shunt_default_workers();
    const struct problem *others = options->method == METHOD_GREEDY ? NULL : list_others(arena, problem);
    const struct exact_options exact = {.seconds = options->time_limit};
    if (options->method == METHOD_EXACT)
        status = exact_build(arena, problem, others, &exact, &schedule, err);
    else
        status = schedule_build(arena, problem, others, options->method, &schedule, err);
    if (status != SHUNT_OK)
        return status;
    const struct file_input input = {.model = documents->model,
                                     .cluster = documents->cluster,
                                     .place = place,
                                     .route = schedule.problem->route,
                                     .problem = schedule.problem,
                                     .schedule = &schedule,
                                     .threads = problem->threads};
    return file_assemble(arena, &input, output, err);
}

enum shunt_status compile_plan_to(const struct compile_options *options, const struct compile_documents *documents,
                                  struct output *output, struct shunt_err *err)
{
    struct arena *arena = malloc(sizeof(*arena));
    if (arena == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    arena_init(arena);
    if (setjmp(arena->on_failure) != 0) {
        arena_finish(arena);
        free(arena);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory while compiling the plan");
    }
    enum shunt_status status = run_stages(arena, options, documents, output, err);
    arena_finish(arena);
    free(arena);
    return status;
}

enum shunt_status compile_plan(const struct compile_options *options, const struct compile_documents *documents,
                               void **bytes_out, size_t *size_out, struct shunt_err *err)
{
    struct output *output;
    enum shunt_status status = output_open(NULL, &output, err);
    if (status != SHUNT_OK)
        return status;
    status = compile_plan_to(options, documents, output, err);
    if (status == SHUNT_OK)
        *bytes_out = output_take(output, size_out);
    output_close(output);
    return status;
}
