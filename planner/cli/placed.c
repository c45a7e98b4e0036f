/* SPDX-License-Identifier: Apache-2.0 */
#include "placed.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/edit.h"
#include "config/load.h"
#include "emit/digest.h"
#include "emit/file.h"

/* ---- devices ------------------------------------------------------------------------- */

/** Device of each new rank; malloc'd. */
static uint32_t *list_devices(const struct shunt_plan *plan)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    uint32_t *devices = calloc(header->to_rank_count, sizeof(*devices));
    for (uint32_t d = 0; devices != NULL && d < header->device_count; d++) {
        const struct shunt_plan_device *device = shunt_plan_get_device(plan, d);
        if (device->to_rank != SHUNT_PLAN_NONE)
            devices[device->to_rank] = device->id;
    }
    return devices;
}

/** "0-7,16,9": ranges count upwards. */
static void print_devices(FILE *file, const uint32_t *devices, uint32_t count)
{
    for (uint32_t r = 0; r < count;) {
        uint32_t end = r + 1;
        while (end < count && devices[end] == devices[end - 1] + 1)
            end++;
        fprintf(file, "%s%" PRIu32, r > 0 ? "," : "", devices[r]);
        if (end > r + 1)
            fprintf(file, "-%" PRIu32, devices[end - 1]);
        r = end;
    }
}

static char *devices_text(const struct shunt_plan *plan)
{
    char *text = NULL;
    size_t size;
    uint32_t *devices = list_devices(plan);
    FILE *file = devices != NULL ? open_memstream(&text, &size) : NULL;
    if (file != NULL) {
        print_devices(file, devices, shunt_plan_get_header(plan)->to_rank_count);
        if (fclose(file) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(devices);
    return text;
}

/* ---- references ------------------------------------------------------------------------ */

/** Real path of a file's folder; malloc'd. */
static char *folder_of(const char *path)
{
    char *copy = strdup(path);
    char *folder = copy != NULL ? realpath(dirname(copy), NULL) : NULL;
    free(copy);
    return folder;
}

/** Absolute path of a file that `reference` names beside the document, if the copy would not find it; else NULL. */
static char *moved_reference(const char *document, const char *copy, const char *reference)
{
    char *from = folder_of(document), *to = folder_of(copy), *beside = NULL, *found = NULL;
    struct stat info;
    if (reference != NULL && reference[0] != '/' && from != NULL && to != NULL && strcmp(from, to) != 0 &&
        asprintf(&beside, "%s/%s", from, reference) >= 0) {
        if (stat(beside, &info) == 0 && S_ISREG(info.st_mode))
            found = realpath(beside, NULL);
        free(beside);
    }
    free(from);
    free(to);
    return found;
}

/* ---- the document ------------------------------------------------------------------------ */

static char *read_all(const char *path, size_t *size_out)
{
    char *text = NULL, bytes[4096];
    size_t count, size;
    FILE *in = fopen(path, "rb"), *out = in != NULL ? open_memstream(&text, &size) : NULL;
    while (out != NULL && (count = fread(bytes, 1, sizeof(bytes), in)) > 0)
        fwrite(bytes, 1, count, out);
    bool good = out != NULL && !ferror(in);
    good = out != NULL && fclose(out) == 0 && good;
    if (in != NULL)
        fclose(in);
    *size_out = size;
    if (good)
        return text;
    free(text);
    return NULL;
}

/** What was written must be what the plan leaves: a fault of the editing else. */
static enum shunt_status check_digest(const struct shunt_plan *plan, const char *path, const char *text, size_t size,
                                      struct shunt_err *err)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    uint8_t digest[SHUNT_PLAN_DIGEST_BYTES];
    struct cfg_layout *layout = NULL;
    enum shunt_status status = cfg_layout_load_memory(path, text, size, &layout, NULL);
    if (status == SHUNT_OK)
        status = digest_layout(layout, header->model_digest, digest);
    if (status == SHUNT_OK && memcmp(digest, header->to_digest, sizeof(digest)) != 0)
        status = SHUNT_ERR_INTERNAL;
    cfg_layout_free(layout);
    if (status == SHUNT_OK || status == SHUNT_ERR_NOMEM)
        return status;
    return shunt_fail(err, SHUNT_ERR_INTERNAL,
                      "\"%s\" would not be the new layout of the plan, and was not written: its document cannot be "
                      "edited (a fault of this program)",
                      path);
}

static enum shunt_status edit_and_write(const struct shunt_plan *plan, const char *text, size_t size,
                                        const struct cfg_edit *edits, size_t edit_count, const char *path,
                                        struct shunt_err *err)
{
    size_t edited_size;
    char *edited = cfg_edit_document(text, size, edits, edit_count, &edited_size);
    enum shunt_status status = edited == NULL ? SHUNT_ERR_NOMEM : SHUNT_OK;
    if (status == SHUNT_OK)
        status = check_digest(plan, path, edited, edited_size, err);
    if (status == SHUNT_OK)
        status = file_write(path, edited, edited_size, err);
    free(edited);
    return status;
}

enum shunt_status placed_write(const struct shunt_plan *plan, const struct cfg_layout *to, const char *path,
                               struct shunt_err *err)
{
    size_t size, count = 0;
    struct cfg_edit edits[3];
    char *text = read_all(to->path, &size), *devices = devices_text(plan);
    char *model = moved_reference(to->path, path, to->model), *cluster = moved_reference(to->path, path, to->cluster);
    enum shunt_status status;
    if (text == NULL)
        status = shunt_fail(err, SHUNT_ERR_IO, "read \"%s\": %s", to->path, strerror(errno));
    else if (devices == NULL)
        status = SHUNT_ERR_NOMEM;
    else {
        edits[count++] = (struct cfg_edit){"devices", devices};
        if (model != NULL)
            edits[count++] = (struct cfg_edit){"model", model};
        if (cluster != NULL)
            edits[count++] = (struct cfg_edit){"cluster", cluster};
        status = edit_and_write(plan, text, size, edits, count, path, err);
    }
    if (status == SHUNT_ERR_NOMEM)
        shunt_fail(err, status, "out of memory for \"%s\"", path);
    free(text);
    free(devices);
    free(model);
    free(cluster);
    return status;
}
