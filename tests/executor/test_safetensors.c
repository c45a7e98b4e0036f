/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: the header parser against good and hostile text, and whole files through an exec. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "io/safetensors_header.h"
#include "rig.h"

static enum shunt_status parse(const char *header, uint64_t data_bytes, struct safetensors_index *index, char **text,
                               struct shunt_err *err)
{
    /* exactly as long as the header, so that a sanitiser sees a byte too far */
    size_t size = strlen(header);
    *text = malloc(size + (size == 0));
    memcpy(*text, header, size);
    return safetensors_parse(*text, size, data_bytes, index, err);
}

static void reads_good_headers(void)
{
    struct safetensors_index index;
    struct shunt_err err = {{0}};
    char *text;
    CHECK_EQ_U64(parse("{}", 0, &index, &text, &err), SHUNT_OK);
    CHECK_EQ_U64(index.count, 0);
    CHECK(safetensors_find(&index, "a") == NULL);
    safetensors_index_finish(&index);
    free(text);

    const char *header = "{ \"__metadata__\" : {\"format\":\"pt\", \"x\":\"\"} ,\n"
                         "\"param/b\":{\"shape\":[ ],\"dtype\":\"F32\",\"data_offsets\":[12, 16]},"
                         "\"param/\\u0061\\u00e9\\ud83d\\ude00\\\"\\/\":"
                         "{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                         "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[12,12]}}   ";
    CHECK_MSG(parse(header, 16, &index, &text, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(index.count, 3);
    const struct safetensors_entry *entry = safetensors_find(&index, "param/a\xc3\xa9\xf0\x9f\x98\x80\"/");
    CHECK(entry != NULL && entry->ndim == 2 && entry->shape[1] == 3 && entry->dtype == SHUNT_DTYPE_BF16);
    entry = safetensors_find(&index, "param/b");
    CHECK(entry != NULL && entry->ndim == 0 && entry->begin == 12 && entry->end == 16);
    CHECK(safetensors_find(&index, "param/c") == NULL);
    safetensors_index_finish(&index);
    free(text);
}

#define ENTRY(fields) "{\"a\":{" fields "}}"
#define GOOD          "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"

static const struct {
    const char *header;
    uint64_t data_bytes;
    const char *text;
} hostile[] = {
    {"", 0, "found the end, expected '{'"},
    {" {}", 0, "header byte 0: found byte 0x20, expected '{'"},
    {"[]", 0, "found '[', expected '{'"},
    {"{", 0, "expected a string"},
    {"{}x", 0, "header byte 2: found 'x'"},
    {"{}{}", 0, "nothing but space"},
    {"{\"a\"}", 0, "expected ':'"},
    {"{\"a\":1}", 0, "expected '{'"},
    {"{\"a\":{}}", 0, "expected a string"},
    {"{\"a\":{" GOOD "},}", 4, "expected a string"},
    {"{\"a\":{" GOOD "}", 4, "',' or '}'"},
    {"{\"a\":{" GOOD "} \"b\":{" GOOD "}}", 4, "',' or '}'"},
    {"{\"a\":{" GOOD "},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "\"a\": is there twice"},
    {"{\"a\":{" GOOD "},\"b\":{" GOOD "}}", 4, "overlaps another entry"},
    {"{\"a\":{" GOOD "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, "overlaps another entry"},
    {"{\"a\":{" GOOD "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}", 9,
     "has a hole before it: found its begin at byte 5, expected 4"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]"), 5, "has a hole before it"},
    {ENTRY(GOOD), 5, "entries end at byte 4 of the data, the file has 5"},
    {ENTRY(GOOD), 3, "entries end at byte 4 of the data, the file has 3"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1]"), 4, "lacks dtype, shape or data_offsets"},
    {ENTRY("\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "has a field twice"},
    {ENTRY(GOOD ",\"more\":1"), 4, "found a field \"more\", expected dtype, shape and data_offsets"},
    {ENTRY("\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]"), 4,
     "dtype: found \"F31\", expected one of BF16, F16, F32, F64, "},
    {ENTRY("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]"), 4, "expected a string"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4,
     "found [0, 4], 4 bytes, expected the 8 bytes of its shape and dtype F32"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]"), 4, "without sign"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]"), 4, "',' or ']'"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]"), 4, "',' or ']'"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]"), 4, "leading zero"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1,],\"data_offsets\":[0,4]"), 4, "a whole number"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]"), 4, "a whole number"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]"), 4, "expected '['"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]"), 4, "fewer numbers"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]"), 0, "shape is too large"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]"), 4, "below 2^64"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]"), 4, "found [4, 0], expected [begin, end]"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]"), 4, "found 1 numbers, expected [begin, end]"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2,4]"), 4, "fewer numbers"},
    {ENTRY("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18446744073709551612,18446744073709551615]"), 4,
     "expected the 4 bytes"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "expected a string"},
    {"{\"__metadata__\":{\"a\":{}}}", 0, "expected a string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "is there twice"},
    {"{\"a\\u001b[2J\\u009b\\n\":{\"x\":0}}", 0, "entry \"a\\u001b[2J\\u009b\\u000a\": found a field \"x\""},
    {ENTRY("\"dtype\":\"\\u001b\",\"shape\":[1]"), 4, "dtype: found \"\\u001b\","},
    {"{\"a\\x\":{}}", 0, "expected an escape"},
    {"{\"a\\", 0, "expected an escape"},
    {"{\"a\\u00", 0, "four hex digits"},
    {"{\"a\\u00g0\":{}}", 0, "a hex digit"},
    {"{\"a\\u0000\":{}}", 0, "other than NUL"},
    {"{\"a\\ud800\":{}}", 0, "surrogate pair"},
    {"{\"a\\ud800\\u0041\":{}}", 0, "surrogate pair"},
    {"{\"a\\udc00\":{}}", 0, "lone surrogates"},
    {"{\"a\n\":{}}", 0, "control character"},
    {"{\"a\xff\":{}}", 0, "expected UTF-8"},
    {"{\"a\xc0\xaf\":{}}", 0, "expected UTF-8"},
    {"{\"a\xed\xa0\x80\":{}}", 0, "expected UTF-8"},
    {"{\"a\xe2\x82", 0, "expected UTF-8"},
    {"{\"a", 0, "the end of a string"},
    {"{'a':{}}", 0, "found ''', expected a string"},
    {"{\"a\":null}", 0, "expected '{'"},
    {"{/**/}", 0, "expected a string"},
};

static void refuses_hostile_headers(void)
{
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct safetensors_index index = {0};
        struct shunt_err err = {{0}};
        char *text;
        enum shunt_status st = parse(hostile[i].header, hostile[i].data_bytes, &index, &text, &err);
        CHECK_MSG(st == SHUNT_ERR_INPUT, "%s", hostile[i].header);
        CHECK_MSG(strstr(err.text, hostile[i].text) != NULL, "%s: got \"%s\", want \"%s\"", hostile[i].header, err.text,
                  hostile[i].text);
        CHECK(index.entries == NULL);
        free(text);
    }
}

static void refuses_a_name_without_end(void)
{
    struct safetensors_index index;
    struct shunt_err err = {{0}};
    size_t size = SAFETENSORS_MAX_NAME + 20;
    char *text = malloc(size);
    memset(text, 'a', size);
    memcpy(text, "{\"", 2);
    memcpy(text + size - 3, "\":{", 3);
    CHECK_EQ_U64(safetensors_parse(text, size, 0, &index, &err), SHUNT_ERR_INPUT);
    CHECK_CONTAINS(err.text, "at most 4096 bytes");
    free(text);
}

/* ---- whole files ------------------------------------------------------------------ */

static char dir[64];

static void path_of(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", dir, name);
}

static void remove_dir(void)
{
    DIR *list = opendir(dir);
    for (struct dirent *entry = list == NULL ? NULL : readdir(list); entry != NULL; entry = readdir(list)) {
        char path[400];
        path_of(path, sizeof(path), entry->d_name);
        unlink(path);
    }
    if (list != NULL)
        closedir(list);
    CHECK(rmdir(dir) == 0);
}

/* A file of rank 0 of the tiny plan's old side. */
static void write_rank(const char *header, uint64_t length, size_t data_bytes)
{
    char path[200];
    static const char zeros[256];
    path_of(path, sizeof(path), "rank-00000.safetensors");
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(&length, 8, 1, file) == 1);
    fputs(header, file);
    fwrite(zeros, 1, data_bytes, file);
    fclose(file);
}

#define EMBED "\"param/embed.weight\":{\"dtype\":\"BF16\",\"shape\":[3,4],\"data_offsets\":[0,24]}"
#define NORM  "\"param/norm.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[24,40]}"
#define FLAT  "\"exp_avg/flat\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[40,60]}"

static const struct {
    const char *name, *header;
    size_t data_bytes;
    enum shunt_status status;
    const char *text;
} files[] = {
    {"good", "{" EMBED "," NORM "," FLAT "}", 60, SHUNT_OK, ""},
    {"missing", "{" EMBED "," NORM "}", 40, SHUNT_ERR_MISMATCH, "exp_avg/flat: no such entry"},
    {"extra", "{" EMBED "," NORM "," FLAT ",\"param/x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[60,61]}}", 61,
     SHUNT_ERR_MISMATCH, "param/x: the plan's old side has no such entry"},
    {"dtype", "{\"param/embed.weight\":{\"dtype\":\"F16\",\"shape\":[3,4],\"data_offsets\":[0,24]}," NORM "," FLAT "}",
     60, SHUNT_ERR_MISMATCH, "param/embed.weight: dtype: found F16, expected BF16"},
    {"shape", "{\"param/embed.weight\":{\"dtype\":\"BF16\",\"shape\":[4,3],\"data_offsets\":[0,24]}," NORM "," FLAT "}",
     60, SHUNT_ERR_MISMATCH, "param/embed.weight: shape: found [4, 3], expected [3, 4]"},
    {"flattened",
     "{\"param/embed.weight\":{\"dtype\":\"BF16\",\"shape\":[12],\"data_offsets\":[0,24]}," NORM "," FLAT "}", 60,
     SHUNT_ERR_MISMATCH, "shape: found [12], expected [3, 4]"},
    {"truncated data", "{" EMBED "," NORM "," FLAT "}", 59, SHUNT_ERR_INPUT, "the file has 59"},
    {"malformed", "{" EMBED NORM "}", 60, SHUNT_ERR_INPUT, "rank-00000.safetensors: header byte"},
};

static void loads_only_what_fits(void)
{
    snprintf(dir, sizeof(dir), "/tmp/shunt-load-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    const struct store_set set = {.dir = dir};
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    rig_bind(&rig, 1, true);
    CHECK_EQ_U64(safetensors_load(rig.execs[0], &set, NULL, &rig.err), SHUNT_ERR_IO);
    CHECK_CONTAINS(rig.err.text, "rank-00000.safetensors: No such file");
    CHECK_EQ_U64(safetensors_load(rig.execs[2], &set, NULL, &rig.err), SHUNT_OK); /* no old rank there */
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        write_rank(files[i].header, strlen(files[i].header), files[i].data_bytes);
        rig.err.text[0] = '\0';
        CHECK_MSG(safetensors_load(rig.execs[0], &set, NULL, &rig.err) == files[i].status, "%s: %s", files[i].name,
                  rig.err.text);
        CHECK_CONTAINS(rig.err.text, files[i].text);
    }
    /* a set that is stored there while the files are read */
    char manifest[sizeof(dir) + 32];
    write_rank(files[0].header, strlen(files[0].header), files[0].data_bytes);
    snprintf(manifest, sizeof(manifest), "%s/shunt-store.json", dir);
    FILE *file = fopen(manifest, "w");
    CHECK(file != NULL && fclose(file) == 0);
    CHECK_EQ_U64(safetensors_load(rig.execs[0], &set, NULL, &rig.err),
                 files[0].status == SHUNT_OK ? SHUNT_ERR_MISMATCH : files[0].status);
    CHECK(files[0].status == SHUNT_OK);
    CHECK_CONTAINS(rig.err.text, "another run stores there");
    CHECK(unlink(manifest) == 0);
    static const uint64_t lengths[] = {0, 1, 100, UINT64_C(100000001), UINT64_MAX, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        write_rank("{}", lengths[i], 0);
        CHECK_EQ_U64(safetensors_load(rig.execs[0], &set, NULL, &rig.err), SHUNT_ERR_INPUT);
    }
    rig_close(&rig);
    remove_dir();
}

/* The new side of the tiny plan, with its two ranks on devices 1 and 2, as one set. */
static void store_side(struct rig *rig)
{
    uint64_t bytes[3] = {0};
    struct store *store;
    for (uint32_t d = 1; d < 3; d++)
        CHECK_MSG(safetensors_bytes(rig->execs[d], &bytes[d], &rig->err) == SHUNT_OK, "%s", rig->err.text);
    CHECK_MSG(store_open(dir, 2, bytes[1] + bytes[2], &store, &rig->err) == SHUNT_OK, "%s", rig->err.text);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct store_file file;
        CHECK_EQ_U64(store_reserve(dir, store_staging(store), rank, bytes[rank + 1], &rig->err), SHUNT_OK);
        CHECK_EQ_U64(store_file_open(&file, dir, store_staging(store), rank, NULL, &rig->err), SHUNT_OK);
        CHECK_EQ_U64(safetensors_store(rig->execs[rank + 1], &file, &rig->err), SHUNT_OK);
        CHECK_EQ_U64(store_file_sync(&file, &rig->err), SHUNT_OK);
        CHECK_EQ_U64(file.written.bytes, bytes[rank + 1]);
        store_file_close(&file);
        store_put_file(store, rank, &file.written);
    }
    CHECK_MSG(store_commit(store, shunt_plan_get_header(rig->plan), NULL, &rig->err) == SHUNT_OK, "%s", rig->err.text);
    store_close(store);
}

static void loads_what_it_stored(void)
{
    snprintf(dir, sizeof(dir), "/tmp/shunt-store-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    rig_bind(&rig, 9, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    for (int i = 0; i < 2; i++) /* the second time over the first */
        store_side(&rig);
    char path[200];
    unsigned char file[4096];
    path_of(path, sizeof(path), "rank-00000.safetensors");
    FILE *stream = fopen(path, "rb");
    size_t size = stream == NULL ? 0 : fread(file, 1, sizeof(file), stream);
    if (stream != NULL)
        fclose(stream);
    uint64_t length;
    memcpy(&length, file, 8);
    CHECK_EQ_U64(length % 8, 0);
    CHECK(size > 8 + length);
    struct safetensors_index index;
    CHECK_MSG(safetensors_parse((char *)file + 8, length, size - 8 - length, &index, &rig.err) == SHUNT_OK, "%s",
              rig.err.text);
    CHECK_EQ_U64(index.count, 3);
    const struct safetensors_entry *entry = safetensors_find(&index, "param/embed.weight");
    CHECK(entry != NULL && entry->shape[0] == 8 && entry->shape[1] == 2);
    for (uint32_t i = 0; entry != NULL && i < shunt_exec_buffer_count(rig.execs[1]); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(rig.execs[1], i, &buffer);
        if (buffer.side == SHUNT_SIDE_TO && strcmp(buffer.name, entry->name) == 0)
            CHECK(memcmp(buffer.data, file + 8 + length + entry->begin, buffer.bytes) == 0);
    }
    safetensors_index_finish(&index);
    rig_close(&rig);
    remove_dir(); /* fails if anything else was left there */
}

static const struct test_case cases[] = {
    {"reads_good_headers", reads_good_headers},
    {"refuses_hostile_headers", refuses_hostile_headers},
    {"refuses_a_name_without_end", refuses_a_name_without_end},
    {"loads_only_what_fits", loads_only_what_fits},
    {"loads_what_it_stored", loads_what_it_stored},
};
TEST_MAIN(cases)
