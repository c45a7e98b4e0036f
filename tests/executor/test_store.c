/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of rank files: the manifest, what is in the way of a new set, and where a run can break off. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"
#include "io/store.h"

/* In place of libc's: what a disk can do to a program. */
static int64_t fsync_ns;
static int fsync_error;
int fsync(int fd)
{
    (void)fd;
    sleep_ns(fsync_ns);
    errno = fsync_error;
    return fsync_error == 0 ? 0 : -1;
}

/* ---- a folder ------------------------------------------------------------------------------- */

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/shunt-set-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static const char *path_of(const char *name)
{
    static char path[400];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void remove_tree(const char *path)
{
    DIR *list = opendir(path);
    for (struct dirent *entry = list == NULL ? NULL : readdir(list); entry != NULL; entry = readdir(list)) {
        char inner[800];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0)
            remove_tree(inner);
    }
    if (list != NULL)
        closedir(list);
    rmdir(path);
}

static void put_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    CHECK(file != NULL && fputs(text, file) >= 0);
    if (file != NULL)
        fclose(file);
}

static uint32_t count_names(const char *prefix)
{
    uint32_t count = 0;
    DIR *list = opendir(dir);
    for (struct dirent *entry = list == NULL ? NULL : readdir(list); entry != NULL; entry = readdir(list))
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (list != NULL)
        closedir(list);
    return count;
}

/* ---- the manifest ----------------------------------------------------------------------------- */

#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HEAD(ranks)                                                                                                    \
    "{\"format\":\"shunt-store\",\"version\":1,\"plan_id\":\"" HEX64 "\",\"layout_digest\":\"" HEX64                   \
    "\",\"staging\":\".shunt-store-0123456789abcdef\",\"ranks\":" ranks ",\"files\":["
#define FILE0 "{\"name\":\"rank-00000.safetensors\",\"bytes\":77,\"crc32c\":\"89abcdef\"}"
#define FILE1 "{\"name\":\"rank-00001.safetensors\",\"bytes\":18446744073709551615,\"crc32c\":\"00000000\"}"

static void manifests_go_round(void)
{
    struct manifest manifest = {.ranks = 0}, back = {.ranks = 0};
    struct shunt_err err = {{0}};
    const char *text = HEAD("2") FILE0 "," FILE1 "]}";
    CHECK_MSG(manifest_parse(text, strlen(text), &manifest, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(manifest.ranks, 2);
    CHECK_EQ_U64(manifest.files[0].bytes, 77);
    CHECK_EQ_U64(manifest.files[0].crc32c, 0x89abcdef);
    CHECK_EQ_U64(manifest.files[1].bytes, UINT64_MAX);
    CHECK_EQ_U64(manifest.plan_id[1], 0x11);
    CHECK_STR(manifest.staging, ".shunt-store-0123456789abcdef");
    char *printed = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&printed, &size);
    CHECK(manifest_print(&manifest, file));
    fclose(file);
    CHECK_MSG(manifest_parse(printed, size, &back, &err) == SHUNT_OK, "%s", err.text);
    CHECK(memcmp(manifest.files, back.files, 2 * sizeof(*back.files)) == 0);
    CHECK(memcmp(manifest.layout_digest, back.layout_digest, sizeof(back.layout_digest)) == 0);
    for (size_t cut = 0; cut + 1 < size; cut++) { /* behind the last bracket comes a line feed */
        struct manifest none = {.ranks = 0};
        char *exact = malloc(cut + 1); /* so that a sanitizer sees a look behind the end */
        memcpy(exact, printed, cut);
        CHECK_MSG(manifest_parse(exact, cut, &none, &err) == SHUNT_ERR_INPUT, "%zu bytes", cut);
        CHECK(none.files == NULL);
        free(exact);
    }
    free(printed);
    manifest_finish(&manifest);
    manifest_finish(&back);
}

static const struct {
    const char *text, *want;
} malformed[] = {
    {"[]", "byte 0: found '[', expected {"},
    {"{\"format\":\"shunt\"}", "expected \"shunt-store\""},
    {"{\"format\":\"shunt-store\",\"version\":2", "found '2', expected 1"},
    {HEAD("0") "]}", "1 to 1048576 ranks"},
    {HEAD("1048577") FILE0 "]}", "1 to 1048576 ranks"},
    {HEAD("99999999999999999999") FILE0 "]}", "a number below 2^64"},
    {HEAD("-1") FILE0 "]}", "found '-', expected a number"},
    {HEAD("2") FILE0 "]}", "found ']', expected ,"},
    {HEAD("1") FILE0 "," FILE1 "]}", "found ',', expected ]"},
    {HEAD("1") FILE1 "]}", "expected \"rank-00000.safetensors\""},
    {HEAD("1") "{\"name\":\"rank-00000.safetensors\",\"bytes\":1,\"crc32c\":\"89ABCDEF\"}]}", "a lower-case hex digit"},
    {HEAD("1") FILE0 "]} x", "found 'x', expected the end"},
    {HEAD("1") "\x1b", "found byte 0x1b, expected {"},
    {"{\"format\":\"shunt-store\",\"version\":1,\"plan_id\":\"" HEX64 "\",\"layout_digest\":\"" HEX64
     "\",\"staging\":\"../../etc\"",
     "expected \".shunt-store-"},
};

static void refuses_malformed_manifests(void)
{
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        struct manifest manifest = {.ranks = 0};
        struct shunt_err err = {{0}};
        CHECK_EQ_U64(manifest_parse(malformed[i].text, strlen(malformed[i].text), &manifest, &err), SHUNT_ERR_INPUT);
        CHECK_CONTAINS(err.text, malformed[i].want);
    }
}

static void knows_names(void)
{
    static const struct {
        const char *name;
        int64_t rank; /* -1: no name of a rank's file */
    } names[] = {
        {"rank-00000.safetensors", 0},     {"rank-99999.safetensors", 99999}, {"rank-100000.safetensors", 100000},
        {"rank-0000.safetensors", -1},     {"rank-000001.safetensors", -1},   {"rank-00001.safetensors.tmp", -1},
        {"rank-.safetensors", -1},         {"rank--0001.safetensors", -1},    {"Rank-00001.safetensors", -1},
        {"rank-12345678.safetensors", -1}, {"model.safetensors", -1},         {"", -1},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint32_t rank = 0;
        bool is = rank_name_parse(names[i].name, &rank);
        CHECK_MSG(is == (names[i].rank >= 0) && (!is || rank == names[i].rank), "%s", names[i].name);
    }
    CHECK(manifest_is_staging(".shunt-store-0123456789abcdef"));
    CHECK(!manifest_is_staging(".shunt-store-0123456789abcdeg"));
    CHECK(!manifest_is_staging(".shunt-store-0123456789abcdef0"));
    CHECK(!manifest_is_staging("shunt-store.json"));
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Of a set, the letter that its files are full of. */
static struct store *stage(uint32_t ranks, char letter)
{
    struct store *store = NULL;
    struct shunt_err err = {{0}};
    CHECK_MSG(store_open(dir, ranks, 100 * ranks, &store, &err) == SHUNT_OK, "%s", err.text);
    for (uint32_t r = 0; r < ranks; r++) {
        char text[100];
        struct store_file file;
        memset(text, letter, sizeof(text));
        CHECK_MSG(store_reserve(dir, store_staging(store), r, 4096, &err) == SHUNT_OK, "%s", err.text);
        CHECK_EQ_U64(store_file_open(&file, dir, store_staging(store), r, NULL, &err), SHUNT_OK);
        CHECK_EQ_U64(store_file_write(&file, text, sizeof(text) - r, &err), SHUNT_OK);
        CHECK_EQ_U64(store_file_sync(&file, &err), SHUNT_OK);
        store_put_file(store, r, &file.written);
        store_file_close(&file);
    }
    return store;
}

static const struct shunt_plan_header *plan_of(uint32_t ranks)
{
    static struct shunt_plan_header header;
    header.from_rank_count = header.to_rank_count = ranks;
    memset(header.from_digest, (int)ranks, sizeof(header.from_digest));
    memset(header.to_digest, (int)ranks, sizeof(header.to_digest));
    return &header;
}

static void store_set(uint32_t ranks, char letter)
{
    struct shunt_err err = {{0}};
    struct store *store = stage(ranks, letter);
    CHECK_MSG(store_commit(store, plan_of(ranks), NULL, &err) == SHUNT_OK, "%s", err.text);
    store_close(store);
}

/* Status of a load of a set of so many ranks. */
static enum shunt_status check_set(uint32_t ranks, struct shunt_err *err)
{
    struct store_set set;
    enum shunt_status st = store_set_open(&set, dir, err);
    if (st == SHUNT_OK)
        st = store_set_check(&set, plan_of(ranks), err);
    store_set_close(&set);
    return st;
}

/* Where a loader finds the file of a rank, and what it is full of. */
static char letter_of(uint32_t rank)
{
    struct store_set set;
    struct shunt_err err;
    char path[400], letter = 0;
    CHECK_EQ_U64(store_set_open(&set, dir, &err), SHUNT_OK);
    snprintf(path, sizeof(path), "%s/%s/%s", dir, set.manifest.staging, rank_name(rank).text);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        fd = open(path_of(rank_name(rank).text), O_RDONLY);
    CHECK(fd >= 0 && read(fd, &letter, 1) == 1);
    close(fd);
    store_set_close(&set);
    return letter;
}

static void replaces_a_set(void)
{
    struct shunt_err err = {{0}};
    make_dir();
    put_file("notes.txt", "mine");
    store_set(3, 'a');
    CHECK_MSG(check_set(3, &err) == SHUNT_OK, "%s", err.text);
    store_set(2, 'b'); /* takes away what the set before had more */
    CHECK_MSG(check_set(2, &err) == SHUNT_OK, "%s", err.text);
    CHECK(letter_of(0) == 'b' && letter_of(1) == 'b');
    CHECK_EQ_U64(count_names("rank-"), 2);
    CHECK_EQ_U64(count_names(".shunt-store-"), 0);
    CHECK_EQ_U64(count_names("notes.txt"), 1);
    store_set(4, 'c');
    CHECK_EQ_U64(check_set(4, &err), SHUNT_OK);
    remove_tree(dir);
}

static void leaves_nothing_without_a_commit(void)
{
    struct shunt_err err = {{0}};
    make_dir();
    rmdir(dir);
    store_close(stage(3, 'a'));
    CHECK(access(dir, F_OK) != 0); /* it was not there before either */
    CHECK(mkdir(dir, 0700) == 0);
    store_set(2, 'b');
    store_close(stage(3, 'c'));
    CHECK_EQ_U64(check_set(2, &err), SHUNT_OK);
    CHECK(letter_of(1) == 'b');
    CHECK_EQ_U64(count_names(""), 2 + 2 + 1);
    remove_tree(dir);
}

/* What a commit does, up to step `steps`; then the process dies. */
static void commit_some(struct store *store, uint32_t ranks, uint32_t steps)
{
    char from[400], to[400];
    struct manifest manifest = {.ranks = ranks};
    snprintf(manifest.staging, sizeof(manifest.staging), "%s", store_staging(store));
    memset(manifest.layout_digest, (int)ranks, sizeof(manifest.layout_digest));
    manifest.files = calloc(ranks, sizeof(*manifest.files));
    for (uint32_t r = 0; r < ranks; r++)
        manifest.files[r].bytes = 100 - r;
    snprintf(from, sizeof(from), "%s/%s/%s", dir, store_staging(store), MANIFEST_NAME);
    if (steps >= 1) {
        FILE *file = fopen(from, "w");
        CHECK(file != NULL && manifest_print(&manifest, file) && fclose(file) == 0);
    }
    if (steps >= 2)
        CHECK(rename(from, path_of(MANIFEST_NAME)) == 0);
    for (uint32_t r = 0; r < ranks && r + 3 <= steps; r++) {
        snprintf(from, sizeof(from), "%s/%s/%s", dir, store_staging(store), rank_name(r).text);
        snprintf(to, sizeof(to), "%s/%s", dir, rank_name(r).text);
        CHECK(rename(from, to) == 0);
    }
    manifest_finish(&manifest);
}

/* Old set of 4, new one of 3: at every step either the one or the other is there, whole. */
static void a_commit_may_break_off(void)
{
    struct shunt_err err = {{0}};
    for (uint32_t steps = 0; steps <= 5; steps++) {
        bool committed = steps >= 2;
        uint32_t ranks = committed ? 3 : 4;
        make_dir();
        store_set(4, 'o');
        pid_t child = fork();
        if (child == 0) {
            commit_some(stage(3, 'n'), 3, steps);
            _exit(0); /* with lock and all */
        }
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK_EQ_U64(count_names(".shunt-store-"), 1);
        CHECK_MSG(check_set(ranks, &err) == SHUNT_OK, "step %u: %s", steps, err.text);
        CHECK_EQ_U64(check_set(7 - ranks, &err), SHUNT_ERR_MISMATCH);
        for (uint32_t r = 0; r < ranks; r++)
            CHECK_MSG(letter_of(r) == (committed ? 'n' : 'o'), "step %u, rank %u", steps, r);
        if (steps % 2 == 0)
            store_tidy(dir);
        else /* the next run does it too */
            store_close(stage(2, 'x'));
        CHECK_EQ_U64(count_names(".shunt-store-"), 0);
        CHECK_EQ_U64(count_names("rank-"), ranks);
        CHECK_MSG(check_set(ranks, &err) == SHUNT_OK, "step %u: %s", steps, err.text);
        for (uint32_t r = 0; r < ranks; r++)
            CHECK_MSG(letter_of(r) == (committed ? 'n' : 'o'), "step %u, rank %u", steps, r);
        remove_tree(dir);
    }
}

static void finds_obstacles_before_the_move(void)
{
    struct store *store;
    struct shunt_err err = {{0}};
    make_dir();
    put_file("file", "");
    static char path[400];
    snprintf(path, sizeof(path), "%s/none/set", dir);
    CHECK_EQ_U64(store_open(path, 2, 1, &store, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "/none/set: make directory: No such file");
    snprintf(path, sizeof(path), "%s/file", dir);
    CHECK_EQ_U64(store_open(path, 2, 1, &store, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "/file: open directory: Not a directory");
    CHECK_EQ_U64(store_open(dir, 2, UINT64_C(1) << 62, &store, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "no space: the set needs 4611686018427387904 bytes");
    CHECK_EQ_U64(store_open("/proc/self", 2, 1, &store, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "--store /proc/self: ");
    CHECK(mkdir(path_of("rank-00001.safetensors"), 0700) == 0);
    CHECK_EQ_U64(store_open(dir, 2, 1, &store, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "in the way, and no files: rank-00001.safetensors");
    rmdir(path_of("rank-00001.safetensors"));
    for (uint32_t r = 2; r < 9; r++)
        put_file(rank_name(r).text, "theirs");
    CHECK_EQ_U64(store_open(dir, 3, 1, &store, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, " has no shunt-store.json, so files of other ranks (rank-0000");
    CHECK_CONTAINS(err.text, " and 2 more) are not removed: choose another DIR, or remove them");
    CHECK_EQ_U64(count_names("rank-"), 7);
    CHECK_EQ_U64(store_open(dir, 9, 1, &store, &err), SHUNT_OK);
    struct store *other;
    CHECK_EQ_U64(store_open(dir, 9, 1, &other, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "another run stores there now");
    store_tidy(dir);
    CHECK_EQ_U64(count_names(".shunt-store-"), 1); /* not of a run that lives */
    CHECK_EQ_U64(store_reserve(dir, store_staging(store), 0, UINT64_C(1) << 60, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "reserve 1152921504606846976 bytes for ");
    store_close(store);
    put_file(MANIFEST_NAME, "{}");
    CHECK_EQ_U64(store_open(dir, 9, 1, &store, &err), SHUNT_ERR_INPUT);
    CHECK_CONTAINS(err.text, "shunt-store.json: byte 1: found '}'");
    remove_tree(dir);
}

static uint32_t polls, polls_left;

static enum shunt_status count_polls(void *ctx, struct shunt_err *err)
{
    (void)ctx;
    return ++polls < polls_left ? SHUNT_OK : shunt_fail(err, SHUNT_ERR_PEER, "device 7 is lost");
}

static void shows_life_while_the_disk_works(void)
{
    struct store_file file;
    struct shunt_err err = {{0}};
    const struct contents_poll poll = {.poll = count_polls};
    make_dir();
    struct store *store = stage(1, 'a');
    CHECK_EQ_U64(store_file_open(&file, dir, store_staging(store), 0, &poll, &err), SHUNT_OK);
    fsync_ns = 300 * NS_PER_MS;
    polls_left = UINT32_MAX;
    CHECK_EQ_U64(store_file_sync(&file, &err), SHUNT_OK);
    CHECK_MSG(polls > 10, "%u polls", polls);
    polls = 0;
    polls_left = 3;
    CHECK_EQ_U64(store_file_sync(&file, &err), SHUNT_ERR_PEER);
    fsync_ns = 0;
    fsync_error = EIO;
    polls_left = UINT32_MAX;
    CHECK_EQ_U64(store_file_sync(&file, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "rank-00000.safetensors: Input/output error");
    fsync_error = 0;
    store_file_close(&file);
    store_close(store);
    remove_tree(dir);
}

/* ---- loading ------------------------------------------------------------------------------- */

static void names_what_is_wrong_with_a_set(void)
{
    struct shunt_err err = {{0}};
    make_dir();
    CHECK_EQ_U64(check_set(2, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "has 2 ranks; missing: rank-00000.safetensors, rank-00001.safetensors");
    put_file("rank-00000.safetensors", "x"); /* made by others: no manifest */
    put_file("rank-00001.safetensors", "x");
    CHECK_MSG(check_set(2, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(check_set(1, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "has 1 ranks; not of them: rank-00001.safetensors");
    CHECK_EQ_U64(check_set(9, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "rank-00005.safetensors and 3 more");
    store_set(2, 'a');
    CHECK_EQ_U64(check_set(3, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "shunt-store.json: a set of 2 ranks, the plan's old side has 3");
    put_file("rank-00002.safetensors", "x");
    CHECK_EQ_U64(check_set(2, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "not of them: rank-00002.safetensors");
    unlink(path_of("rank-00002.safetensors"));
    put_file("rank-00001.safetensors", "shorter");
    CHECK_EQ_U64(check_set(2, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "not of the size that shunt-store.json says: rank-00001.safetensors");
    struct store_set set;
    struct shunt_plan_header other = *plan_of(2);
    other.from_digest[5] ^= 1;
    CHECK_EQ_U64(store_set_open(&set, dir, &err), SHUNT_OK);
    CHECK_EQ_U64(store_set_check(&set, &other, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "stored as another layout");
    store_set_close(&set);
    remove_tree(dir);
}

static const struct test_case cases[] = {
    {"manifests_go_round", manifests_go_round},
    {"refuses_malformed_manifests", refuses_malformed_manifests},
    {"knows_names", knows_names},
    {"replaces_a_set", replaces_a_set},
    {"leaves_nothing_without_a_commit", leaves_nothing_without_a_commit},
    {"a_commit_may_break_off", a_commit_may_break_off},
    {"finds_obstacles_before_the_move", finds_obstacles_before_the_move},
    {"shows_life_while_the_disk_works", shows_life_while_the_disk_works},
    {"names_what_is_wrong_with_a_set", names_what_is_wrong_with_a_set},
};
TEST_MAIN(cases)
