/* SPDX-License-Identifier: Apache-2.0 */
/* Read a rank's old side: the header into memory, the data straight into the buffers. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "replay/exec.h"

#define CHUNK_BYTES (UINT64_C(8) << 20)

struct source {
    char path[4096];
    int fd;
    const struct manifest_file *expected; /* NULL: nobody says */
    uint32_t crc32c;                      /* of what has been read, in order */
    uint64_t data_at, data_bytes;
    char *text;
    struct safetensors_index index;
};

static enum shunt_status read_exactly(const struct source *source, void *bytes, uint64_t size, uint64_t offset,
                                      struct shunt_err *err)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t n = pread(source->fd, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return shunt_fail(err, SHUNT_ERR_IO, "read %s: %s", source->path, strerror(errno));
        if (n == 0)
            return shunt_fail(err, SHUNT_ERR_INPUT, "%s: truncated at byte %" PRIu64, source->path, offset);
        at += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return SHUNT_OK;
}

static enum shunt_status read_header(struct source *source, uint64_t file_bytes, struct shunt_err *err)
{
    uint64_t length;
    struct shunt_err inner = {{0}};
    if (file_bytes < sizeof(length))
        return shunt_fail(err, SHUNT_ERR_INPUT, "%s: truncated: %" PRIu64 " bytes are no safetensors file",
                          source->path, file_bytes);
    enum shunt_status st = read_exactly(source, &length, sizeof(length), 0, err);
    if (st != SHUNT_OK)
        return st;
    source->crc32c = shunt_crc32c(0, &length, sizeof(length));
    length = le64toh(length);
    if (length > SAFETENSORS_MAX_HEADER || length > file_bytes - sizeof(length))
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s: a header of %" PRIu64 " bytes in a file of %" PRIu64 " (at most %" PRIu64
                          " are allowed)",
                          source->path, length, file_bytes, SAFETENSORS_MAX_HEADER);
    source->text = malloc(length + 1);
    if (source->text == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory for the header", source->path);
    st = read_exactly(source, source->text, length, sizeof(length), err);
    if (st != SHUNT_OK)
        return st;
    source->crc32c = shunt_crc32c(source->crc32c, source->text, length); /* parsing changes the text */
    source->data_at = sizeof(length) + length;
    source->data_bytes = file_bytes - source->data_at;
    st = safetensors_parse(source->text, length, source->data_bytes, &source->index, &inner);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "%s: %s", source->path, inner.text);
}

/* Of a set whose commit was broken off, a file may still be in the staging folder. */
static bool open_in(struct source *source, const char *dir, const char *folder, uint32_t rank)
{
    int size = snprintf(source->path, sizeof(source->path), "%s%s%s/%s", dir, folder[0] != '\0' ? "/" : "", folder,
                        rank_name(rank).text);
    if (size < 0 || (size_t)size >= sizeof(source->path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    source->fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return source->fd >= 0;
}

static enum shunt_status source_open(struct source *source, const struct store_set *set, uint32_t rank,
                                     struct shunt_err *err)
{
    struct stat st;
    *source = (struct source){.fd = -1};
    if (set->stored && rank < set->manifest.ranks)
        source->expected = &set->manifest.files[rank];
    bool opened =
        (set->stored && open_in(source, set->dir, set->manifest.staging, rank)) || open_in(source, set->dir, "", rank);
    if (!opened || fstat(source->fd, &st) != 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open %s: %s", source->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return shunt_fail(err, SHUNT_ERR_IO, "open %s: not a regular file", source->path);
    if (source->expected != NULL && source->expected->bytes != (uint64_t)st.st_size)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: found %" PRIu64 " bytes, " MANIFEST_NAME " says %" PRIu64,
                          source->path, (uint64_t)st.st_size, source->expected->bytes);
    return read_header(source, (uint64_t)st.st_size, err);
}

static void source_close(struct source *source)
{
    safetensors_index_finish(&source->index);
    free(source->text);
    if (source->fd >= 0)
        close(source->fd);
}

static void print_shape(char *text, size_t size, const uint64_t *shape, uint32_t ndim)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t d = 0; d < ndim; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, d == 0 ? "" : ", ", shape[d]);
    snprintf(text + used, size - used, "]");
}

/* A scalar, shape [], passes for one element. */
static bool same_shape(const struct safetensors_entry *entry, const struct shunt_exec_buffer *buffer)
{
    if (entry->ndim == 0)
        return buffer->ndim == 1 && buffer->shape[0] == 1;
    if (buffer->bytes == 0)
        return entry->begin == entry->end;
    if (entry->ndim != buffer->ndim)
        return false;
    for (uint32_t d = 0; d < entry->ndim; d++) {
        if (entry->shape[d] != (uint64_t)buffer->shape[d])
            return false;
    }
    return true;
}

static enum shunt_status check_entry(const struct source *source, const struct safetensors_entry *entry,
                                     const struct shunt_exec_buffer *buffer, struct shunt_err *err)
{
    char found[160], expected[160];
    uint64_t shape[SHUNT_MAX_DIMS];
    if (entry->dtype != buffer->dtype)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s: dtype: found %s, expected %s", source->path, buffer->name,
                          shunt_dtype_safetensors_name(entry->dtype), shunt_dtype_safetensors_name(buffer->dtype));
    if (!same_shape(entry, buffer)) {
        for (uint32_t d = 0; d < buffer->ndim; d++)
            shape[d] = (uint64_t)buffer->shape[d];
        print_shape(found, sizeof(found), entry->shape, entry->ndim);
        print_shape(expected, sizeof(expected), shape, buffer->ndim);
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s: shape: found %s, expected %s", source->path, buffer->name,
                          found, expected);
    }
    if (entry->end - entry->begin != buffer->bytes)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s: found %" PRIu64 " bytes, the plan's buffer has %" PRIu64,
                          source->path, buffer->name, entry->end - entry->begin, buffer->bytes);
    return SHUNT_OK;
}

/* Chunk by chunk; `data` is one chunk only if the entry is just passed over. */
static enum shunt_status read_entry(struct source *source, const struct safetensors_entry *entry, char *data,
                                    bool passed_over, const struct contents_poll *poll, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    uint64_t bytes = entry->end - entry->begin;
    for (uint64_t done = 0; done < bytes && st == SHUNT_OK; done += CHUNK_BYTES) {
        uint64_t n = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        char *at = passed_over ? data : data + done;
        st = read_exactly(source, at, n, source->data_at + entry->begin + done, err);
        if (st == SHUNT_OK)
            source->crc32c = shunt_crc32c(source->crc32c, at, n);
        if (st == SHUNT_OK && poll != NULL)
            st = poll->poll(poll->ctx, err);
    }
    return st;
}

/* An entry beside the tensors that the plan says it does not copy: "scalar/NAME" or "blob/NAME". */
static bool is_left(const struct shunt_plan *plan, const char *name)
{
    const char *at = shunt_plan_string(plan, shunt_plan_get_summary(plan)->state_notes);
    const char *slash = strchr(name, '/');
    struct shunt_plan_note note;
    if (strncmp(name, "scalar/", 7) != 0 && strncmp(name, "blob/", 5) != 0)
        return false;
    while (shunt_plan_next_note(&at, &note)) {
        if (shunt_plan_note_is(note.name, note.name_bytes, slash + 1))
            return !shunt_plan_note_is(note.action, note.action_bytes, "copied");
    }
    return false;
}

/* An entry of the file and the buffer that it goes to. */
struct load {
    const struct safetensors_entry *entry;
    struct shunt_exec_buffer buffer;
    uint32_t index; /* of the buffer */
    bool left;      /* it goes nowhere: read for the checksum alone */
};

struct load_list {
    struct load *at; /* room for all buffers and all entries */
    uint32_t count;
};

/* An empty one before another that begins at the same byte. */
static int by_place(const void *a, const void *b)
{
    const struct safetensors_entry *x = ((const struct load *)a)->entry, *y = ((const struct load *)b)->entry;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Entries without a buffer: those that the plan leaves are passed over. */
static enum shunt_status add_left(const struct source *source, const struct shunt_exec *exec, struct load_list *loads,
                                  struct shunt_err *err)
{
    for (uint32_t i = 0; i < source->index.count; i++) {
        const struct safetensors_entry *entry = &source->index.entries[i];
        if (engine_find(&exec->engine, entry->name, SHUNT_SIDE_FROM) >= 0)
            continue;
        if (!is_left(exec->engine.plan, entry->name))
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %.300s: the plan's old side has no such entry",
                              source->path, entry->name);
        loads->at[loads->count++] = (struct load){.entry = entry, .left = true};
    }
    return SHUNT_OK;
}

/* Every buffer of the old side has its entry, and every entry its buffer, or is left. */
static enum shunt_status pair_up(const struct source *source, const struct shunt_exec *exec, struct load_list *loads,
                                 struct shunt_err *err)
{
    for (uint32_t i = 0; i < shunt_exec_buffer_count(exec); i++) {
        struct load *load = &loads->at[loads->count];
        shunt_exec_get_buffer(exec, i, &load->buffer);
        load->index = i;
        if (load->buffer.side == SHUNT_SIDE_TO || load->buffer.side == SHUNT_SIDE_SCRATCH)
            continue;
        load->entry = safetensors_find(&source->index, load->buffer.name);
        if (load->entry == NULL && load->buffer.bytes == 0)
            continue; /* an empty shard may be left out */
        if (load->entry == NULL)
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s: no such entry", source->path, load->buffer.name);
        enum shunt_status st = check_entry(source, load->entry, &load->buffer, err);
        if (st != SHUNT_OK)
            return st;
        loads->count++;
    }
    return loads->count == source->index.count ? SHUNT_OK : add_left(source, exec, loads, err);
}

/* Without a checksum to compare, what is left need not be read. */
static enum shunt_status read_left(struct source *source, const struct safetensors_entry *entry,
                                   const struct contents_poll *poll, struct shunt_err *err)
{
    uint64_t bytes = entry->end - entry->begin;
    if (source->expected == NULL || bytes == 0)
        return SHUNT_OK;
    char *chunk = malloc(bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES);
    if (chunk == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", source->path);
    enum shunt_status st = read_entry(source, entry, chunk, true, poll, err);
    free(chunk);
    return st;
}

static enum shunt_status read_in_window(struct source *source, const struct shunt_exec *exec, const struct load *load,
                                        const struct contents_poll *poll, struct shunt_err *err)
{
    struct engine_window window;
    enum shunt_status st = engine_window_open(&exec->engine, load->index, false, &window, err);
    if (st != SHUNT_OK)
        return st;
    st = read_entry(source, load->entry, window.data, false, poll, err);
    enum shunt_status closed = engine_window_close(&window, st == SHUNT_OK, st == SHUNT_OK ? err : NULL);
    return st == SHUNT_OK ? closed : st;
}

/* In the file's order, so that the checksum is that of the file. */
static enum shunt_status read_all(struct source *source, const struct shunt_exec *exec, const struct load_list *loads,
                                  const struct contents_poll *poll, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    if (loads->count > 1)
        qsort(loads->at, loads->count, sizeof(*loads->at), by_place);
    for (uint32_t i = 0; i < loads->count && st == SHUNT_OK; i++) {
        const struct load *load = &loads->at[i];
        st = load->left ? read_left(source, load->entry, poll, err) : read_in_window(source, exec, load, poll, err);
    }
    if (st == SHUNT_OK && source->expected != NULL && source->crc32c != source->expected->crc32c)
        st = shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: checksum is %08x, " MANIFEST_NAME " says %08x", source->path,
                        source->crc32c, source->expected->crc32c);
    return st;
}

static enum shunt_status load_all(struct source *source, const struct shunt_exec *exec,
                                  const struct contents_poll *poll, struct shunt_err *err)
{
    struct load_list loads = {NULL, 0};
    loads.at = calloc((size_t)shunt_exec_buffer_count(exec) + source->index.count + 1, sizeof(*loads.at));
    if (loads.at == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s: out of memory", source->path);
    enum shunt_status st = pair_up(source, exec, &loads, err);
    if (st == SHUNT_OK)
        st = read_all(source, exec, &loads, poll, err);
    free(loads.at);
    return st;
}

/* A run that stores here gives its manifest a name before it moves any file up: without one, all files were of one set. */
static enum shunt_status refuse_new_set(const struct store_set *set, struct shunt_err *err)
{
    char path[sizeof(((struct source *)NULL)->path)];
    int size = snprintf(path, sizeof(path), "%s/" MANIFEST_NAME, set->dir);
    struct stat st;
    if (set->stored || size < 0 || (size_t)size >= sizeof(path) || stat(path, &st) != 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_MISMATCH,
                      "%s: " MANIFEST_NAME " came while the files were read: another run stores there", set->dir);
}

enum shunt_status safetensors_load(struct shunt_exec *exec, const struct store_set *set,
                                   const struct contents_poll *poll, struct shunt_err *err)
{
    struct source source;
    uint32_t rank = shunt_plan_get_device(exec->engine.plan, exec->engine.device)->from_rank;
    if (rank == SHUNT_PLAN_NONE)
        return SHUNT_OK;
    enum shunt_status st = source_open(&source, set, rank, err);
    if (st == SHUNT_OK)
        st = load_all(&source, exec, poll, err);
    if (st == SHUNT_OK)
        st = refuse_new_set(set, err);
    source_close(&source);
    return st;
}
