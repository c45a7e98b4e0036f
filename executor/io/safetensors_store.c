/* SPDX-License-Identifier: Apache-2.0 */
/* Write a rank's new side: header, then the buffers in the header's order. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "replay/exec.h"

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
        if (buffer->side == SHUNT_SIDE_FROM || buffer->side == SHUNT_SIDE_SCRATCH)
            continue;
        if (shape_bytes(buffer) != buffer->bytes)
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s has %" PRIu64 " bytes, its shape %" PRIu64, buffer->name,
                              buffer->bytes, shape_bytes(buffer));
        ++*count_out;
    }
    qsort(buffers, *count_out, sizeof(*buffers), by_width_and_name);
    return SHUNT_OK;
}

/* What a file is made of. */
struct content {
    struct shunt_exec_buffer *buffers;
    uint32_t count;
    char *header;
    size_t header_bytes;
};

static void content_finish(struct content *content)
{
    free(content->buffers);
    free(content->header);
}

static enum shunt_status content_init(struct content *content, const struct shunt_exec *exec, struct shunt_err *err)
{
    *content = (struct content){.count = 0};
    content->buffers = calloc((size_t)shunt_exec_buffer_count(exec) + 1, sizeof(*content->buffers));
    enum shunt_status st = content->buffers != NULL ? collect(exec, content->buffers, &content->count, err)
                                                    : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a table");
    if (st == SHUNT_OK) {
        content->header = make_header(content->buffers, content->count, &content->header_bytes);
        if (content->header == NULL)
            st = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a header");
    }
    if (st != SHUNT_OK)
        content_finish(content);
    return st;
}

enum shunt_status safetensors_bytes(const struct shunt_exec *exec, uint64_t *bytes_out, struct shunt_err *err)
{
    struct content content;
    enum shunt_status st = content_init(&content, exec, err);
    if (st != SHUNT_OK)
        return st;
    *bytes_out = content.header_bytes;
    for (uint32_t i = 0; i < content.count; i++)
        *bytes_out += content.buffers[i].bytes;
    content_finish(&content);
    return SHUNT_OK;
}

static enum shunt_status write_buffer(const struct shunt_exec *exec, const struct shunt_exec_buffer *buffer,
                                      struct store_file *file, struct shunt_err *err)
{
    struct engine_window window;
    uint32_t index = (uint32_t)engine_find(&exec->engine, buffer->name, SHUNT_SIDE_TO);
    enum shunt_status st = engine_window_open(&exec->engine, index, true, &window, err);
    if (st != SHUNT_OK)
        return st;
    st = store_file_write(file, window.data, buffer->bytes, err);
    engine_window_close(&window, false, NULL);
    return st;
}

enum shunt_status safetensors_store(const struct shunt_exec *exec, struct store_file *file, struct shunt_err *err)
{
    struct content content;
    enum shunt_status st = content_init(&content, exec, err);
    if (st != SHUNT_OK)
        return st;
    st = store_file_write(file, content.header, content.header_bytes, err);
    for (uint32_t i = 0; i < content.count && st == SHUNT_OK; i++)
        st = write_buffer(exec, &content.buffers[i], file, err);
    content_finish(&content);
    return st;
}
