/* SPDX-License-Identifier: Apache-2.0 */
/* Write a rank's new side: into a file without a name, which gets its own once it is complete and on disk. */
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

#define CHUNK_BYTES (UINT64_C(8) << 20)

struct target {
    const char *dir;
    int dir_fd, fd;
    char name[40], temp[80];
    bool temp_exists;
    uint64_t at;
};

/* ---- header ---------------------------------------------------------------------- */

/* Wide elements first, so that every entry is aligned to its element; then by name. */
static int by_width_and_name(const void *a, const void *b)
{
    const struct shunt_exec_buffer *x = a, *y = b;
    uint32_t wx = shunt_dtype_bytes(x->dtype), wy = shunt_dtype_bytes(y->dtype);
    if (wx != wy)
        return wx > wy ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void print_quoted(FILE *text, const char *name)
{
    putc('"', text);
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(text, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(text, "\\u%04x", *c);
        else
            putc(*c, text);
    }
    putc('"', text);
}

static void print_entry(FILE *text, const struct shunt_exec_buffer *buffer, uint64_t begin)
{
    putc(',', text);
    print_quoted(text, buffer->name);
    fprintf(text, ":{\"dtype\":\"%s\",\"shape\":[", shunt_dtype_safetensors_name(buffer->dtype));
    for (uint32_t d = 0; d < buffer->ndim; d++)
        fprintf(text, "%s%" PRId64, d == 0 ? "" : ",", buffer->shape[d]);
    fprintf(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + buffer->bytes);
}

/* Length word and JSON, padded with spaces to a multiple of 8; released with free(). */
static char *make_header(const struct shunt_exec_buffer *buffers, uint32_t count, size_t *size_out)
{
    char *header = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&header, &size);
    if (text == NULL)
        return NULL;
    uint64_t begin = 0, length = 0;
    fwrite(&length, sizeof(length), 1, text);
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", text);
    for (uint32_t i = 0; i < count; i++) {
        print_entry(text, &buffers[i], begin);
        begin += buffers[i].bytes;
    }
    putc('}', text);
    long used = ftell(text);
    for (; used >= 0 && used % 8 != 0; used++)
        putc(' ', text);
    if (fclose(text) != 0) {
        free(header);
        return NULL;
    }
    length = htole64(size - sizeof(length));
    memcpy(header, &length, sizeof(length));
    *size_out = size;
    return header;
}

/* ---- file ------------------------------------------------------------------------ */

static enum shunt_status io_fail(const struct target *target, const char *call, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_IO, "%s %s/%s: %s", call, target->dir, target->name, strerror(errno));
}

static enum shunt_status target_open(struct target *target, const char *dir, uint32_t rank, struct shunt_err *err)
{
    *target = (struct target){.dir = dir, .dir_fd = -1, .fd = -1};
    snprintf(target->name, sizeof(target->name), "rank-%05u.safetensors", rank);
    snprintf(target->temp, sizeof(target->temp), ".%s.tmp", target->name);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return shunt_fail(err, SHUNT_ERR_IO, "make directory %s: %s", dir, strerror(errno));
    target->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target->dir_fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open directory %s: %s", dir, strerror(errno));
    target->fd = openat(target->dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (target->fd < 0) { /* not every file system has files without a name */
        unlinkat(target->dir_fd, target->temp, 0);
        target->fd = openat(target->dir_fd, target->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        target->temp_exists = target->fd >= 0;
    }
    return target->fd >= 0 ? SHUNT_OK : io_fail(target, "write", err);
}

static void target_close(struct target *target)
{
    if (target->temp_exists)
        unlinkat(target->dir_fd, target->temp, 0);
    if (target->fd >= 0)
        close(target->fd);
    if (target->dir_fd >= 0)
        close(target->dir_fd);
}

static enum shunt_status append(struct target *target, const void *bytes, uint64_t size, struct shunt_err *err)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(target->fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return io_fail(target, "write", err);
        at += n;
        size -= (uint64_t)n;
    }
    return SHUNT_OK;
}

/* False with errno EEXIST when the name is taken. */
static bool give_name(const struct target *target, const char *name)
{
    char link[40];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", target->fd);
    return linkat(AT_FDCWD, link, target->dir_fd, name, AT_SYMLINK_FOLLOW) == 0;
}

/* A file that is there already is replaced in one step, which takes a second name for a moment. */
static bool replace_old(struct target *target)
{
    if (!target->temp_exists) {
        unlinkat(target->dir_fd, target->temp, 0); /* of a process that died in that moment */
        target->temp_exists = give_name(target, target->temp);
    }
    if (!target->temp_exists || renameat(target->dir_fd, target->temp, target->dir_fd, target->name) != 0)
        return false;
    target->temp_exists = false;
    return true;
}

/* Complete and on disk: now it may have its name. */
static enum shunt_status target_publish(struct target *target, struct shunt_err *err)
{
    if (fsync(target->fd) != 0)
        return io_fail(target, "fsync", err);
    bool named = !target->temp_exists && give_name(target, target->name);
    if (!named && !replace_old(target))
        return io_fail(target, "name", err);
    return fsync(target->dir_fd) == 0 ? SHUNT_OK : io_fail(target, "fsync the directory of", err);
}

static enum shunt_status append_buffer(struct target *target, const struct shunt_exec_buffer *buffer,
                                       const struct contents_poll *poll, struct shunt_err *err)
{
    for (uint64_t done = 0; done < buffer->bytes; done += CHUNK_BYTES) {
        uint64_t n = buffer->bytes - done < CHUNK_BYTES ? buffer->bytes - done : CHUNK_BYTES;
        enum shunt_status st = append(target, (const char *)buffer->data + done, n, err);
        if (st == SHUNT_OK && poll != NULL)
            st = poll->poll(poll->ctx, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

/* ---- the whole ------------------------------------------------------------------- */

static uint64_t shape_bytes(const struct shunt_exec_buffer *buffer)
{
    uint64_t bytes = shunt_dtype_bytes(buffer->dtype);
    for (uint32_t d = 0; d < buffer->ndim; d++)
        bytes *= (uint64_t)buffer->shape[d];
    return bytes;
}

static enum shunt_status collect(const struct shunt_exec *exec, struct shunt_exec_buffer *buffers, uint32_t *count_out,
                                 struct shunt_err *err)
{
    *count_out = 0;
    for (uint32_t i = 0; i < shunt_exec_buffer_count(exec); i++) {
        struct shunt_exec_buffer *buffer = &buffers[*count_out];
        shunt_exec_get_buffer(exec, i, buffer);
        if (buffer->side == SHUNT_SIDE_FROM)
            continue;
        if (shape_bytes(buffer) != buffer->bytes)
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s has %" PRIu64 " bytes, its shape %" PRIu64, buffer->name,
                              buffer->bytes, shape_bytes(buffer));
        ++*count_out;
    }
    qsort(buffers, *count_out, sizeof(*buffers), by_width_and_name);
    return SHUNT_OK;
}

static enum shunt_status write_all(struct target *target, const struct shunt_exec_buffer *buffers, uint32_t count,
                                   const struct contents_poll *poll, struct shunt_err *err)
{
    size_t size;
    char *header = make_header(buffers, count, &size);
    if (header == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s/%s: out of memory for the header", target->dir, target->name);
    enum shunt_status st = append(target, header, size, err);
    free(header);
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++)
        st = append_buffer(target, &buffers[i], poll, err);
    return st == SHUNT_OK ? target_publish(target, err) : st;
}

enum shunt_status safetensors_store(const struct shunt_exec *exec, const char *dir, const struct contents_poll *poll,
                                    struct shunt_err *err)
{
    struct target target;
    uint32_t count, rank = shunt_plan_get_device(exec->engine.plan, exec->engine.device)->to_rank;
    if (rank == SHUNT_PLAN_NONE)
        return SHUNT_OK;
    struct shunt_exec_buffer *buffers = calloc((size_t)shunt_exec_buffer_count(exec) + 1, sizeof(*buffers));
    if (buffers == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for the table of %s", dir);
    enum shunt_status st = collect(exec, buffers, &count, err);
    if (st == SHUNT_OK) {
        st = target_open(&target, dir, rank, err);
        if (st == SHUNT_OK)
            st = write_all(&target, buffers, count, poll, err);
        target_close(&target);
    }
    free(buffers);
    return st;
}
