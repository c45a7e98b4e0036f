/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "emit/digest.h"
#include "emit/file.h"
#include "figures.h"
#include "json.h"

/* Every member of an entry, in the order of the file. */
static const struct {
    const char *key;
    size_t offset;
} texts[] =
    {
        {"name", offsetof(struct cfg_index_entry, name)},
        {"plan", offsetof(struct cfg_index_entry, file)},
        {"plan_id", offsetof(struct cfg_index_entry, plan_id)},
        {"compiler", offsetof(struct cfg_index_entry, compiler)},
        {"model", offsetof(struct cfg_index_entry, model)},
        {"from", offsetof(struct cfg_index_entry, from)},
        {"to", offsetof(struct cfg_index_entry, to)},
        {"cluster", offsetof(struct cfg_index_entry, cluster)},
        {"model_digest", offsetof(struct cfg_index_entry, model_digest)},
        {"from_digest", offsetof(struct cfg_index_entry, from_digest)},
        {"to_digest", offsetof(struct cfg_index_entry, to_digest)},
        {"move_digest", offsetof(struct cfg_index_entry, move_digest)},
        {"cluster_digest", offsetof(struct cfg_index_entry, cluster_digest)},
},
  counts[] = {
      {"cap", offsetof(struct cfg_index_entry, cap)},       {"staging", offsetof(struct cfg_index_entry, staging)},
      {"bytes", offsetof(struct cfg_index_entry, bytes)},   {"devices", offsetof(struct cfg_index_entry, devices)},
      {"rounds", offsetof(struct cfg_index_entry, rounds)}, {"moved", offsetof(struct cfg_index_entry, moved)},
      {"peak", offsetof(struct cfg_index_entry, peak)},
};
#define TEXT_COUNT  (sizeof(texts) / sizeof(texts[0]))
#define COUNT_COUNT (sizeof(counts) / sizeof(counts[0]))

/* What decides the bytes of a plan: these texts and options. */
#define FIRST_INPUT 3 /* "compiler" and all behind it */

static char **text_of(const struct cfg_index_entry *entry, size_t which)
{
    return (char **)((char *)entry + texts[which].offset);
}

static int64_t count_of(const struct cfg_index_entry *entry, size_t which)
{
    return *(const int64_t *)((const char *)entry + counts[which].offset);
}

/* ---- entries ------------------------------------------------------------------------ */

static void entry_free(struct cfg_index_entry *entry)
{
    for (size_t t = 0; entry != NULL && t < TEXT_COUNT; t++)
        free(*text_of(entry, t));
    if (entry != NULL)
        free(entry->asked_digest);
    free(entry);
}

static struct cfg_index_entry *entry_copy(const struct cfg_index_entry *entry)
{
    struct cfg_index_entry *copy = malloc(sizeof(*copy));
    bool good = copy != NULL;
    if (copy == NULL)
        return NULL;
    *copy = *entry;
    for (size_t t = 0; t < TEXT_COUNT; t++) {
        *text_of(copy, t) = strdup(*text_of(entry, t));
        good = good && *text_of(copy, t) != NULL;
    }
    copy->asked_digest = entry->asked_digest != NULL ? strdup(entry->asked_digest) : NULL;
    good = good && (copy->asked_digest != NULL) == (entry->asked_digest != NULL);
    if (good)
        return copy;
    entry_free(copy);
    return NULL;
}

/* This program; zeros, which no entry is taken for current with, where the system does not tell. */
static struct fmt_text compiler_digest(void)
{
    static const uint8_t none[SHUNT_PLAN_DIGEST_BYTES];
    uint8_t digest[SHUNT_PLAN_DIGEST_BYTES];
    bool known = digest_program(digest) == SHUNT_OK;
    return fmt_hex(known ? digest : none, SHUNT_PLAN_DIGEST_BYTES);
}

static bool is_known(const char *digest)
{
    return digest[strspn(digest, "0")] != '\0';
}

static bool file_has_size(const struct plan_index *index, uint32_t step, int64_t bytes)
{
    struct stat info;
    char *path = plan_index_file(index, step);
    bool has = path != NULL && stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == bytes;
    free(path);
    return has;
}

/* ---- opening ------------------------------------------------------------------------- */

static char *join(const char *folder, const char *name, const char *ending)
{
    size_t size = strlen(folder) + strlen(name) + strlen(ending) + 2;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s%s", folder, name, ending);
    return path;
}

char *plan_index_file(const struct plan_index *index, uint32_t step)
{
    return join(index->folder, index->ladder->steps[step].name, ".plan");
}

char *plan_index_layout(const struct plan_index *index, uint32_t step)
{
    return join(index->folder, index->ladder->steps[step].name, ".layout.yaml");
}

/* The step whose plan an entry is; the number of steps: none. */
static uint32_t find_step(const struct cfg_ladder *ladder, const struct cfg_index_entry *entry)
{
    uint32_t step = 0;
    size_t length;
    while (step < ladder->step_count && strcmp(ladder->steps[step].name, entry->name) != 0)
        step++;
    length = strlen(entry->name);
    if (strncmp(entry->file, entry->name, length) != 0 || strcmp(entry->file + length, ".plan") != 0)
        return ladder->step_count;
    return step;
}

static enum shunt_status take_entries(struct plan_index *index, const struct cfg_index *found)
{
    for (uint32_t e = 0; e < found->entry_count; e++) {
        const struct cfg_index_entry *entry = &found->entries[e];
        uint32_t step = find_step(index->ladder, entry);
        if (step == index->ladder->step_count || !file_has_size(index, step, entry->bytes))
            continue;
        plan_index_drop(index, step); /* a name twice: the last one counts */
        index->entries[step] = entry_copy(entry);
        if (index->entries[step] == NULL)
            return SHUNT_ERR_NOMEM;
    }
    return SHUNT_OK;
}

static enum shunt_status read_index(struct plan_index *index, bool force, FILE *diag)
{
    struct stat info;
    struct cfg_index *found = NULL;
    if (stat(index->path, &info) != 0)
        return SHUNT_OK; /* what else is wrong with the folder shows when a plan is written */
    enum shunt_status status = cfg_index_load(index->path, &found, force ? NULL : diag);
    if (status == SHUNT_OK && strcmp(found->ladder, index->ladder->name) != 0) {
        if (!force)
            fprintf(diag, "%s: ladder: found \"%s\", expected \"%s\"\n", index->path, found->ladder,
                    index->ladder->name);
        status = SHUNT_ERR_INPUT;
    }
    if (status == SHUNT_OK)
        status = take_entries(index, found);
    cfg_index_free(found);
    if (status == SHUNT_ERR_INPUT && !force)
        fprintf(diag, "%s is no index of this ladder's plans: choose another folder, or --force\n", index->path);
    return status == SHUNT_ERR_INPUT && force ? SHUNT_OK : status;
}

enum shunt_status plan_index_open(const struct cfg_ladder *ladder, const char *folder, bool force,
                                  struct plan_index *index_out, FILE *diag)
{
    struct plan_index index = {.ladder = ladder, .folder = folder, .path = join(folder, "index", ".json")};
    index.entries = calloc(ladder->step_count, sizeof(struct cfg_index_entry *));
    enum shunt_status status = SHUNT_ERR_NOMEM;
    if (index.path != NULL && index.entries != NULL)
        status = read_index(&index, force, diag);
    if (status == SHUNT_ERR_NOMEM)
        fprintf(diag, "%s: out of memory\n", folder);
    if (status == SHUNT_OK)
        *index_out = index;
    else
        plan_index_close(&index);
    return status;
}

void plan_index_close(struct plan_index *index)
{
    for (uint32_t s = 0; index->entries != NULL && s < index->ladder->step_count; s++)
        entry_free(index->entries[s]);
    free(index->entries);
    free(index->path);
    *index = (struct plan_index){0};
}

/* ---- is a plan current? ---------------------------------------------------------------- */

#define DOCUMENT_DIGESTS 5

static enum shunt_status digest_documents(const struct compile_documents *documents,
                                          struct fmt_text out[DOCUMENT_DIGESTS])
{
    uint8_t digests[DOCUMENT_DIGESTS][SHUNT_PLAN_DIGEST_BYTES];
    enum shunt_status status = digest_model(documents->model, digests[0]);
    if (status == SHUNT_OK)
        status = digest_layout(documents->from, digests[0], digests[1]);
    if (status == SHUNT_OK)
        status = digest_layout(documents->to, digests[0], digests[2]);
    if (status == SHUNT_OK)
        status = digest_cluster(documents->cluster, digests[3]);
    if (status == SHUNT_OK)
        status = digest_move(documents->from, documents->to, digests[4]);
    for (int d = 0; status == SHUNT_OK && d < DOCUMENT_DIGESTS; d++)
        out[d] = fmt_hex(digests[d], SHUNT_PLAN_DIGEST_BYTES);
    return status;
}

static void set_options(struct cfg_index_entry *entry, const struct compile_options *options)
{
    entry->cap = options->cap_given ? (int64_t)options->cap : -1;
    entry->staging = options->staging_given ? (int64_t)options->staging : -1;
    entry->spill_host = options->spill_host;
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Would the same inputs be entered? */
static bool has_inputs(const struct cfg_index_entry *entry, const struct compile_options *options,
                       const struct compile_documents *documents)
{
    struct fmt_text digests[DOCUMENT_DIGESTS], compiler = compiler_digest();
    if (!is_known(compiler.s) || digest_documents(documents, digests) != SHUNT_OK)
        return false;
    struct cfg_index_entry wanted = {.compiler = compiler.s,
                                     .model = documents->model->name,
                                     .from = documents->from->name,
                                     .to = documents->to->name,
                                     .cluster = documents->cluster->name,
                                     .model_digest = digests[0].s,
                                     .from_digest = digests[1].s,
                                     .to_digest = options->place_optimal ? entry->to_digest : digests[2].s,
                                     .asked_digest = options->place_optimal ? digests[2].s : NULL,
                                     .cluster_digest = digests[3].s,
                                     .move_digest = digests[4].s};
    set_options(&wanted, options);
    for (size_t t = FIRST_INPUT; t < TEXT_COUNT; t++) {
        if (strcmp(*text_of(entry, t), *text_of(&wanted, t)) != 0)
            return false;
    }
    return entry->cap == wanted.cap && entry->staging == wanted.staging && entry->spill_host == wanted.spill_host &&
           same_text(entry->asked_digest, wanted.asked_digest);
}

/* Is the file what was written, to the last byte? */
static bool has_id(const struct shunt_plan *plan, const struct cfg_index_entry *entry)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    uint8_t id[SHUNT_PLAN_DIGEST_BYTES];
    return digest_open_plan(plan, id, NULL) == SHUNT_OK && memcmp(id, header->plan_id, sizeof(id)) == 0 &&
           strcmp(fmt_hex(id, sizeof(id)).s, entry->plan_id) == 0;
}

struct shunt_plan *plan_index_current(const struct plan_index *index, uint32_t step,
                                      const struct compile_options *options, const struct compile_documents *documents)
{
    const struct cfg_index_entry *entry = index->entries[step];
    struct shunt_plan *plan = NULL;
    if (entry == NULL || !has_inputs(entry, options, documents))
        return NULL;
    char *path = plan_index_file(index, step);
    if (path != NULL && shunt_plan_open(path, &plan, NULL) == SHUNT_OK && !has_id(plan, entry)) {
        shunt_plan_close(plan);
        plan = NULL;
    }
    free(path);
    return plan;
}

/* ---- changing and writing ---------------------------------------------------------------- */

void plan_index_drop(struct plan_index *index, uint32_t step)
{
    entry_free(index->entries[step]);
    index->entries[step] = NULL;
}

enum shunt_status plan_index_set(struct plan_index *index, uint32_t step, const struct compile_options *options,
                                 const struct compile_documents *documents, const struct shunt_plan *plan)
{
    struct figures figures;
    struct fmt_text compiler = compiler_digest(), digests[DOCUMENT_DIGESTS];
    if (digest_documents(documents, digests) != SHUNT_OK)
        return SHUNT_ERR_NOMEM;
    char file[256];
    figures_get(plan, &figures);
    snprintf(file, sizeof(file), "%s.plan", index->ladder->steps[step].name);
    struct cfg_index_entry entry = {.name = index->ladder->steps[step].name,
                                    .file = file,
                                    .plan_id = figures.plan_id.s,
                                    .compiler = compiler.s,
                                    .model = (char *)figures.model,
                                    .from = (char *)figures.from,
                                    .to = (char *)figures.to,
                                    .cluster = (char *)figures.cluster,
                                    .model_digest = figures.model_digest.s,
                                    .from_digest = figures.from_digest.s,
                                    .to_digest = figures.to_digest.s,
                                    .cluster_digest = figures.cluster_digest.s,
                                    .move_digest = digests[4].s,
                                    .asked_digest = options->place_optimal ? digests[2].s : NULL,
                                    .bytes = (int64_t)figures.file_bytes,
                                    .devices = (int64_t)figures.devices,
                                    .rounds = (int64_t)figures.rounds,
                                    .moved = (int64_t)figures.summary.moved,
                                    .peak = (int64_t)figures.summary.peak};
    set_options(&entry, options);
    plan_index_drop(index, step);
    index->entries[step] = entry_copy(&entry);
    return index->entries[step] != NULL ? SHUNT_OK : SHUNT_ERR_NOMEM;
}

static void put_entry(struct json *json, const struct cfg_index_entry *entry)
{
    json_object_begin(json);
    for (size_t t = 0; t < TEXT_COUNT; t++)
        json_key_string(json, texts[t].key, *text_of(entry, t));
    if (entry->asked_digest != NULL)
        json_key_string(json, "asked_digest", entry->asked_digest);
    for (size_t c = 0; c < COUNT_COUNT; c++) {
        if (count_of(entry, c) >= 0)
            json_key_u64(json, counts[c].key, (uint64_t)count_of(entry, c));
    }
    if (entry->spill_host)
        json_key_string(json, "spill", "host");
    json_object_end(json);
}

static bool print(const struct plan_index *index, FILE *file)
{
    struct json json;
    json_init(&json, file, true);
    json_object_begin(&json);
    json_key_string(&json, "kind", "index");
    json_key_string(&json, "ladder", index->ladder->name);
    json_key(&json, "plans");
    json_array_begin(&json);
    for (uint32_t s = 0; s < index->ladder->step_count; s++) {
        if (index->entries[s] != NULL)
            put_entry(&json, index->entries[s]);
    }
    json_array_end(&json);
    json_object_end(&json);
    return json_finish(&json);
}

enum shunt_status plan_index_write(const struct plan_index *index, struct shunt_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bool printed = file != NULL && print(index, file);
    if (file != NULL)
        printed = fclose(file) == 0 && printed;
    enum shunt_status status = printed ? file_write(index->path, text, size, err)
                                       : shunt_fail(err, SHUNT_ERR_NOMEM, "write \"%s\": out of memory", index->path);
    free(text);
    return status;
}
