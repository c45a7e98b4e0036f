/* SPDX-License-Identifier: Apache-2.0 */
#include "precompile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "placed.h"

double precompile_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The document that a step names; NULL with diag written. */
static char *resolve(const struct precompile *run, uint32_t step, const char *key, const char *reference,
                     struct cfg_pos pos, FILE *diag)
{
    const char *path = run->ladder->path, *kind = strcmp(key, "cluster") == 0 ? "cluster" : "layout";
    char *found = cfg_resolve(path, reference, kind[0] == 'c' ? "clusters" : "layouts", diag);
    if (found == NULL)
        fprintf(diag, "%s:%" PRIu32 ":%" PRIu32 ": steps[%" PRIu32 "].%s: found \"%s\", expected a %s document\n", path,
                pos.line, pos.column, step, key, reference, kind);
    return found;
}

static void set_limits(const struct precompile *run, const struct cfg_ladder_step *step,
                       struct compile_options *options)
{
    options->cap_given = run->options->cap_given || step->cap > 0;
    options->cap = run->options->cap_given ? run->options->cap : step->cap;
    options->staging_given = step->staging > 0;
    options->staging = step->staging;
    options->spill_host = step->spill_host;
}

static enum shunt_status compile_step(struct precompile *run, uint32_t s, const struct compile_options *options,
                                      const struct compile_documents *documents, struct precompile_result *result,
                                      struct shunt_err *err)
{
    if (!run->options->force)
        result->old = plan_index_current(&run->index, s, options, documents);
    if (result->old != NULL) {
        result->outcome = PRECOMPILE_KEPT;
        return SHUNT_OK;
    }
    enum shunt_status status = make_plan(options, documents, true, result->path, &result->made, err);
    if (status == SHUNT_OK)
        status = plan_index_set(&run->index, s, options, documents, result->made.plan);
    if (status == SHUNT_OK)
        result->outcome = PRECOMPILE_MADE;
    return status;
}

/* Also beside a plan that was kept: the file may be gone. */
static enum shunt_status write_layout(struct precompile *run, uint32_t s, const struct cfg_layout *to,
                                      struct precompile_result *result, struct shunt_err *err)
{
    const struct shunt_plan *plan = result->outcome == PRECOMPILE_KEPT ? result->old : result->made.plan;
    char *path = plan_index_layout(&run->index, s);
    enum shunt_status status =
        path != NULL ? placed_write(plan, to, path, err) : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    free(path);
    if (status != SHUNT_OK)
        result->outcome = PRECOMPILE_FAILED;
    return status;
}

static enum shunt_status load_and_compile(struct precompile *run, uint32_t s, struct precompile_result *result,
                                          FILE *diag, struct shunt_err *err)
{
    const struct cfg_ladder_step *step = &run->ladder->steps[s];
    char *from = resolve(run, s, "from", step->from, step->from_pos, diag);
    char *to = resolve(run, s, "to", step->to, step->to_pos, diag);
    bool own = run->options->cluster == NULL && step->cluster != NULL;
    char *cluster = own ? resolve(run, s, "cluster", step->cluster, step->cluster_pos, diag) : NULL;
    struct compile_options options = {.from_path = from,
                                      .to_path = to,
                                      .cluster = own ? cluster : run->options->cluster,
                                      .place_optimal = strcmp(run->options->place, "optimal") == 0};
    struct compile_documents documents;
    set_limits(run, step, &options);
    enum shunt_status status = from == NULL || to == NULL || (own && cluster == NULL) ? SHUNT_ERR_IO : SHUNT_OK;
    if (status == SHUNT_OK)
        status = compile_load(&options, &documents, diag);
    if (status == SHUNT_OK) {
        status = compile_step(run, s, &options, &documents, result, err);
        if (status == SHUNT_OK && options.place_optimal)
            status = write_layout(run, s, documents.to, result, err);
        compile_unload(&documents);
    }
    free(from);
    free(to);
    free(cluster);
    return status;
}

/* What went wrong, in lines; the problems of documents have been written to diag. */
void precompile_step(struct precompile *run, uint32_t s, struct precompile_result *result)
{
    size_t size = 0;
    double start = precompile_now();
    struct shunt_err err = {""};
    FILE *diag = open_memstream(&result->problems, &size);
    result->path = plan_index_file(&run->index, s);
    result->outcome = PRECOMPILE_FAILED;
    result->status = diag == NULL || result->path == NULL ? SHUNT_ERR_NOMEM : SHUNT_OK;
    if (result->status == SHUNT_OK)
        result->status = load_and_compile(run, s, result, diag, &err);
    if (result->status != SHUNT_OK)
        plan_index_drop(&run->index, s);
    if (diag != NULL && err.text[0] != '\0')
        fprintf(diag, "%s\n", err.text);
    if (diag != NULL)
        fclose(diag);
    result->seconds = precompile_now() - start;
}

void precompile_free_result(struct precompile_result *result)
{
    made_plan_free(&result->made);
    shunt_plan_close(result->old);
    free(result->problems);
    free(result->path);
}
