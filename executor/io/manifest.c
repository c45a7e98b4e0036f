/* SPDX-License-Identifier: Apache-2.0 */
#include "io/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES       (UINT64_C(256) << 20) /* of a manifest: 2^20 ranks take half of it */
#define STAGING_DIGITS  16
#define RANK_PREFIX     "rank-"
#define RANK_SUFFIX     ".safetensors"
#define RANK_MAX_DIGITS 7

/* ---- names ----------------------------------------------------------------------- */

struct rank_name rank_name(uint32_t rank)
{
    struct rank_name name;
    snprintf(name.text, sizeof(name.text), RANK_PREFIX "%05" PRIu32 RANK_SUFFIX, rank);
    return name;
}

bool rank_name_parse(const char *name, uint32_t *rank_out)
{
    if (strncmp(name, RANK_PREFIX, strlen(RANK_PREFIX)) != 0)
        return false;
    const char *digits = name + strlen(RANK_PREFIX);
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > RANK_MAX_DIGITS)
        return false;
    *rank_out = (uint32_t)strtoul(digits, NULL, 10);
    return strcmp(rank_name(*rank_out).text, name) == 0;
}

bool manifest_is_staging(const char *name)
{
    size_t prefix = strlen(MANIFEST_STAGING);
    return strncmp(name, MANIFEST_STAGING, prefix) == 0 && strlen(name) == prefix + STAGING_DIGITS &&
           strspn(name + prefix, "0123456789abcdef") == STAGING_DIGITS;
}

/* ---- writing --------------------------------------------------------------------- */

static void print_digest(FILE *file, const char *key, const uint8_t *digest)
{
    fprintf(file, " \"%s\": \"", key);
    for (uint32_t i = 0; i < SHUNT_PLAN_DIGEST_BYTES; i++)
        fprintf(file, "%02x", digest[i]);
    fputs("\",\n", file);
}

bool manifest_print(const struct manifest *manifest, FILE *file)
{
    fputs("{\"format\": \"shunt-store\", \"version\": 1,\n", file);
    print_digest(file, "plan_id", manifest->plan_id);
    print_digest(file, "layout_digest", manifest->layout_digest);
    fprintf(file, " \"staging\": \"%s\",\n \"ranks\": %" PRIu32 ", \"files\": [\n", manifest->staging, manifest->ranks);
    for (uint32_t r = 0; r < manifest->ranks; r++)
        fprintf(file, " {\"name\": \"%s\", \"bytes\": %" PRIu64 ", \"crc32c\": \"%08" PRIx32 "\"}%s\n",
                rank_name(r).text, manifest->files[r].bytes, manifest->files[r].crc32c,
                r + 1 < manifest->ranks ? "," : "");
    fputs("]}\n", file);
    return !ferror(file);
}

/* ---- reading --------------------------------------------------------------------- */

struct scan {
    const char *text;
    size_t at, size;
    struct shunt_err *err;
};

static bool refuse(const struct scan *scan, const char *expected)
{
    unsigned char c = scan->at < scan->size ? (unsigned char)scan->text[scan->at] : 0;
    if (scan->at >= scan->size)
        shunt_fail(scan->err, SHUNT_ERR_INPUT, "byte %zu: found the end, expected %s", scan->at, expected);
    else if (c > 0x20 && c < 0x7F)
        shunt_fail(scan->err, SHUNT_ERR_INPUT, "byte %zu: found '%c', expected %s", scan->at, c, expected);
    else
        shunt_fail(scan->err, SHUNT_ERR_INPUT, "byte %zu: found byte 0x%02x, expected %s", scan->at, c, expected);
    return false;
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->size && strchr(" \t\r\n", scan->text[scan->at]) != NULL && scan->text[scan->at] != '\0')
        scan->at++;
}

/* One token, exactly. */
static bool take(struct scan *scan, const char *token)
{
    size_t length = strlen(token);
    skip_space(scan);
    if (scan->size - scan->at < length || memcmp(scan->text + scan->at, token, length) != 0)
        return refuse(scan, token);
    scan->at += length;
    return true;
}

/* Tokens one after the other; NULL ends them. */
static bool take_all(struct scan *scan, const char *const *tokens)
{
    for (; *tokens != NULL; tokens++) {
        if (!take(scan, *tokens))
            return false;
    }
    return true;
}
#define TAKE(scan, ...) take_all(scan, (const char *const[]){__VA_ARGS__, NULL})

static bool take_u64(struct scan *scan, uint64_t *value_out)
{
    uint64_t value = 0;
    skip_space(scan);
    size_t begin = scan->at;
    for (; scan->at < scan->size && isdigit((unsigned char)scan->text[scan->at]); scan->at++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(scan->text[scan->at] - '0'), &value))
            return refuse(scan, "a number below 2^64");
    }
    *value_out = value;
    return scan->at > begin || refuse(scan, "a number");
}

/* Exactly `count` lower-case hex digits. */
static bool take_digits(struct scan *scan, uint8_t *bytes_out, uint32_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < count; i++, scan->at++) {
        const char *digit = scan->at < scan->size ? memchr(digits, scan->text[scan->at], 16) : NULL;
        if (digit == NULL)
            return refuse(scan, "a lower-case hex digit");
        bytes_out[i / 2] = (uint8_t)(bytes_out[i / 2] << 4 | (digit - digits));
    }
    return true;
}

static bool take_hex(struct scan *scan, uint8_t *bytes_out, uint32_t count)
{
    return take(scan, "\"") && take_digits(scan, bytes_out, count) && take(scan, "\"");
}

static bool take_staging(struct scan *scan, char name_out[32])
{
    uint8_t id[STAGING_DIGITS / 2] = {0};
    if (!take(scan, "\"" MANIFEST_STAGING) || !take_digits(scan, id, STAGING_DIGITS))
        return false;
    size_t length = strlen(MANIFEST_STAGING) + STAGING_DIGITS;
    memcpy(name_out, scan->text + scan->at - length, length);
    name_out[length] = '\0';
    return take(scan, "\"");
}

static bool take_file(struct scan *scan, uint32_t rank, struct manifest_file *file_out)
{
    char name[44];
    uint8_t crc[4] = {0};
    snprintf(name, sizeof(name), "\"%s\"", rank_name(rank).text);
    if ((rank > 0 && !take(scan, ",")) || !TAKE(scan, "{", "\"name\"", ":", name, ",", "\"bytes\"", ":") ||
        !take_u64(scan, &file_out->bytes) || !TAKE(scan, ",", "\"crc32c\"", ":") || !take_hex(scan, crc, 8))
        return false;
    file_out->crc32c = (uint32_t)crc[0] << 24 | (uint32_t)crc[1] << 16 | (uint32_t)crc[2] << 8 | crc[3];
    return take(scan, "}");
}

static bool take_head(struct scan *scan, struct manifest *manifest)
{
    uint64_t ranks;
    if (!TAKE(scan, "{", "\"format\"", ":", "\"shunt-store\"", ",", "\"version\"", ":", "1", ",", "\"plan_id\"", ":") ||
        !take_hex(scan, manifest->plan_id, 2 * SHUNT_PLAN_DIGEST_BYTES) || !TAKE(scan, ",", "\"layout_digest\"", ":") ||
        !take_hex(scan, manifest->layout_digest, 2 * SHUNT_PLAN_DIGEST_BYTES) || !TAKE(scan, ",", "\"staging\"", ":") ||
        !take_staging(scan, manifest->staging) || !TAKE(scan, ",", "\"ranks\"", ":") || !take_u64(scan, &ranks))
        return false;
    if (ranks == 0 || ranks > SHUNT_PLAN_MAX_DEVICES)
        return refuse(scan, "1 to 1048576 ranks before this");
    manifest->ranks = (uint32_t)ranks;
    return TAKE(scan, ",", "\"files\"", ":", "[");
}

static bool take_files(struct scan *scan, struct manifest *manifest)
{
    for (uint32_t r = 0; r < manifest->ranks; r++) {
        if (!take_file(scan, r, &manifest->files[r]))
            return false;
    }
    if (!TAKE(scan, "]", "}"))
        return false;
    skip_space(scan);
    return scan->at == scan->size || refuse(scan, "the end");
}

enum shunt_status manifest_parse(const char *text, size_t size, struct manifest *manifest_out, struct shunt_err *err)
{
    struct manifest manifest = {.ranks = 0};
    struct scan scan = {.text = text, .size = size, .err = err};
    if (!take_head(&scan, &manifest))
        return SHUNT_ERR_INPUT;
    manifest.files = calloc(manifest.ranks, sizeof(*manifest.files));
    if (manifest.files == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u ranks", manifest.ranks);
    if (!take_files(&scan, &manifest)) {
        manifest_finish(&manifest);
        return SHUNT_ERR_INPUT;
    }
    *manifest_out = manifest;
    return SHUNT_OK;
}

void manifest_finish(struct manifest *manifest)
{
    free(manifest->files);
    *manifest = (struct manifest){.ranks = 0};
}

static enum shunt_status read_text(int fd, const char *dir, char **text_out, size_t *size_out, struct shunt_err *err)
{
    struct stat st;
    size_t have = 0;
    if (fstat(fd, &st) != 0)
        return shunt_fail(err, SHUNT_ERR_IO, "stat %s/" MANIFEST_NAME ": %s", dir, strerror(errno));
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_BYTES)
        return shunt_fail(err, SHUNT_ERR_INPUT, "%s/" MANIFEST_NAME ": not a regular file of at most %" PRIu64 " bytes",
                          dir, MAX_BYTES);
    char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "%s/" MANIFEST_NAME ": out of memory", dir);
    while (have < (size_t)st.st_size) {
        ssize_t n = read(fd, text + have, (size_t)st.st_size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            free(text);
            return shunt_fail(err, SHUNT_ERR_IO, "read %s/" MANIFEST_NAME ": %s", dir, strerror(errno));
        }
        if (n == 0)
            break;
        have += (size_t)n;
    }
    *text_out = text;
    *size_out = have;
    return SHUNT_OK;
}

enum shunt_status manifest_read(int dir_fd, const char *dir, struct manifest *manifest_out, bool *found_out,
                                struct shunt_err *err)
{
    char *text = NULL;
    size_t size = 0;
    struct shunt_err inner = {{0}};
    int fd = openat(dir_fd, MANIFEST_NAME, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *found_out = false;
    if (fd < 0 && errno == ENOENT)
        return SHUNT_OK;
    if (fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open %s/" MANIFEST_NAME ": %s", dir, strerror(errno));
    enum shunt_status st = read_text(fd, dir, &text, &size, err);
    close(fd);
    if (st != SHUNT_OK)
        return st;
    st = manifest_parse(text, size, manifest_out, &inner);
    free(text);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "%s/" MANIFEST_NAME ": %s", dir, inner.text);
    *found_out = true;
    return SHUNT_OK;
}
