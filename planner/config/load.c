/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ladder.h"
#include "tables.h"
#include "text_check.h"

/* The engine's callers rely on it: every document struct starts with the path it was opened as. */
_Static_assert(offsetof(struct cfg_model, path) == 0, "path first");
_Static_assert(offsetof(struct cfg_cluster, path) == 0, "path first");
_Static_assert(offsetof(struct cfg_layout, path) == 0, "path first");
_Static_assert(offsetof(struct cfg_ladder, path) == 0, "path first");
_Static_assert(offsetof(struct cfg_index, path) == 0, "path first");

const struct cfg_document *const cfg_documents[] = {&cfg_model_document,  &cfg_cluster_document, &cfg_layout_document,
                                                    &cfg_ladder_document, &cfg_index_document,   NULL};

static void document_free(const struct cfg_document *document, void *object)
{
    if (object == NULL)
        return;
    char *path;
    memcpy(&path, object, sizeof(path));
    free(path);
    cfg_table_release(document->table, object);
    free(object);
}

static enum shunt_status out_of_memory(const char *name, FILE *diag)
{
    if (diag != NULL)
        fprintf(diag, "%s: out of memory\n", name);
    return SHUNT_ERR_NOMEM;
}

/* ---- one document in memory ------------------------------------------------------------ */

/* A document of another kind would fail in every line: say the one thing that matters. */
static bool is_other_kind(const struct cfg_document *document, const struct cfg_node *root, struct cfg_diag *diag)
{
    const struct cfg_node *kind = cfg_node_find(root, "kind");
    if (kind == NULL)
        return false;
    for (const struct cfg_document *const *other = cfg_documents; *other != NULL; other++) {
        if (*other == document || !cfg_node_is(kind, (*other)->kind))
            continue;
        const struct cfg_path path = {.key = "kind"};
        cfg_report(diag, kind->pos, &path, "found a %s document, expected kind `%s`", (*other)->kind, document->kind);
        return true;
    }
    return false;
}

static enum shunt_status fill(const struct cfg_document *document, const struct cfg_tree *tree, struct cfg_diag *diag,
                              void *object)
{
    if (tree->root == NULL) {
        cfg_report(diag, (struct cfg_pos){1, 1}, NULL, "found an empty document, expected one of kind `%s`",
                   document->kind);
        return SHUNT_ERR_INPUT;
    }
    if (is_other_kind(document, tree->root, diag))
        return SHUNT_ERR_INPUT;
    struct cfg_loader loader = {.diag = diag};
    const struct cfg_site site = {&loader, tree->root, NULL};
    bool good = cfg_table_fill(document->table, &site, object);
    if (loader.out_of_memory)
        return SHUNT_ERR_NOMEM;
    /* a tag was reported while the tree was built */
    return good && diag->count == 0 ? SHUNT_OK : SHUNT_ERR_INPUT;
}

static enum shunt_status document_load(const struct cfg_document *document, const char *name, const void *bytes,
                                       size_t size, void **out, FILE *diag_file)
{
    struct cfg_diag diag = {.out = diag_file, .file = name};
    struct cfg_tree tree = {0};
    char *path = cfg_copy_text(name, strlen(name));
    void *object = cfg_alloc(document->table->size);
    enum shunt_status status = SHUNT_ERR_NOMEM;
    if (object != NULL)
        memcpy(object, &path, sizeof(path));
    if (path != NULL && object != NULL)
        status = cfg_tree_parse(&tree, bytes, size, document->bulk, &diag);
    if (status == SHUNT_OK)
        status = fill(document, &tree, &diag, object);
    cfg_tree_finish(&tree);
    cfg_diag_finish(&diag);
    if (status == SHUNT_ERR_NOMEM)
        out_of_memory(name, diag_file);
    if (status == SHUNT_OK) {
        *out = object;
        return SHUNT_OK;
    }
    if (object != NULL)
        document_free(document, object);
    else
        free(path);
    return status;
}

/* ---- files -------------------------------------------------------------------------------- */

static enum shunt_status cannot_read(const char *path, int error, FILE *diag)
{
    if (diag != NULL)
        fprintf(diag, "%s: cannot read: %s\n", path, strerror(error));
    return SHUNT_ERR_IO;
}

/* Read at most one byte more than a document may have. */
static enum shunt_status read_file(const char *path, size_t most, char **bytes_out, size_t *size_out, FILE *diag)
{
    /* a pipe must not hold the command up: only files are documents */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0)
        return cannot_read(path, errno, diag);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return cannot_read(path, S_ISDIR(info.st_mode) ? EISDIR : ESPIPE, diag);
    }
    FILE *file = fdopen(fd, "rb");
    if (file == NULL) {
        close(fd);
        return out_of_memory(path, diag);
    }
    char *bytes = cfg_alloc(most + 1);
    if (bytes == NULL) {
        fclose(file);
        return out_of_memory(path, diag);
    }
    *size_out = fread(bytes, 1, most + 1, file);
    int error = ferror(file) ? errno : 0;
    fclose(file);
    if (error != 0) {
        free(bytes);
        return cannot_read(path, error, diag);
    }
    *bytes_out = bytes;
    return SHUNT_OK;
}

static enum shunt_status file_load(const struct cfg_document *document, const char *path, void **out, FILE *diag)
{
    char *bytes = NULL;
    size_t size = 0, most = document->bulk != NULL ? CFG_MAX_BULK_BYTES : CFG_MAX_BYTES;
    enum shunt_status status = read_file(path, most, &bytes, &size, diag);
    if (status == SHUNT_OK)
        status = document_load(document, path, bytes, size, out, diag);
    free(bytes);
    return status;
}

/* ---- the kinds ------------------------------------------------------------------------ */

enum shunt_status cfg_model_load_memory(const char *name, const void *bytes, size_t size, struct cfg_model **out,
                                        FILE *diag)
{
    void *object;
    enum shunt_status status = document_load(&cfg_model_document, name, bytes, size, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_cluster_load_memory(const char *name, const void *bytes, size_t size, struct cfg_cluster **out,
                                          FILE *diag)
{
    void *object;
    enum shunt_status status = document_load(&cfg_cluster_document, name, bytes, size, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_layout_load_memory(const char *name, const void *bytes, size_t size, struct cfg_layout **out,
                                         FILE *diag)
{
    void *object;
    enum shunt_status status = document_load(&cfg_layout_document, name, bytes, size, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_ladder_load_memory(const char *name, const void *bytes, size_t size, struct cfg_ladder **out,
                                         FILE *diag)
{
    void *object;
    enum shunt_status status = document_load(&cfg_ladder_document, name, bytes, size, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_index_load_memory(const char *name, const void *bytes, size_t size, struct cfg_index **out,
                                        FILE *diag)
{
    void *object;
    enum shunt_status status = document_load(&cfg_index_document, name, bytes, size, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_model_load(const char *path, struct cfg_model **out, FILE *diag)
{
    void *object;
    enum shunt_status status = file_load(&cfg_model_document, path, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_cluster_load(const char *path, struct cfg_cluster **out, FILE *diag)
{
    void *object;
    enum shunt_status status = file_load(&cfg_cluster_document, path, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_layout_load(const char *path, struct cfg_layout **out, FILE *diag)
{
    void *object;
    enum shunt_status status = file_load(&cfg_layout_document, path, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_ladder_load(const char *path, struct cfg_ladder **out, FILE *diag)
{
    void *object;
    enum shunt_status status = file_load(&cfg_ladder_document, path, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

enum shunt_status cfg_index_load(const char *path, struct cfg_index **out, FILE *diag)
{
    void *object;
    enum shunt_status status = file_load(&cfg_index_document, path, &object, diag);
    if (status == SHUNT_OK)
        *out = object;
    return status;
}

void cfg_model_free(struct cfg_model *model)
{
    document_free(&cfg_model_document, model);
}

void cfg_cluster_free(struct cfg_cluster *cluster)
{
    document_free(&cfg_cluster_document, cluster);
}

void cfg_layout_free(struct cfg_layout *layout)
{
    document_free(&cfg_layout_document, layout);
}

void cfg_ladder_free(struct cfg_ladder *ladder)
{
    document_free(&cfg_ladder_document, ladder);
}

void cfg_index_free(struct cfg_index *index)
{
    document_free(&cfg_index_document, index);
}
