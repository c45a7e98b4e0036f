/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a plan's file: the old one or the new one, whole, and nothing else, whatever ends the program. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emit/file.h"
#include "emit/output.h"
#include "harness.h"

/* In place of libc's: a signal while the disk works, and a file system without unnamed files. */
static int signal_in_fsync, fsync_error;
static bool no_unnamed;

int fsync(int fd)
{
    (void)fd;
    if (signal_in_fsync != 0)
        raise(signal_in_fsync);
    errno = fsync_error;
    return fsync_error == 0 ? 0 : -1;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, unsigned) : 0;
    va_end(list);
    if (no_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static char folder[64], path[80];

static uint32_t count_files(void)
{
    uint32_t count = 0;
    DIR *list = opendir(folder);
    for (struct dirent *entry = list == NULL ? NULL : readdir(list); entry != NULL; entry = readdir(list))
        count += entry->d_name[0] != '.';
    if (list != NULL)
        closedir(list);
    return count;
}

static bool holds(const char *want)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    size_t size = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);
    if (file != NULL)
        fclose(file);
    return size == strlen(want) && strcmp(text, want) == 0;
}

static void begin(bool with_old)
{
    struct shunt_err err = {""};
    snprintf(folder, sizeof(folder), "/tmp/shunt-write-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/a.plan", folder);
    if (with_old)
        CHECK_MSG(file_write(path, "old", 3, &err) == SHUNT_OK, "%s", err.text);
}

static void end(void)
{
    unlink(path);
    CHECK(rmdir(folder) == 0); /* fails if anything else is there */
}

static void writes_and_replaces(void)
{
    for (int named = 0; named < 2; named++) {
        struct shunt_err err = {""};
        struct stat st;
        no_unnamed = named == 1;
        begin(true);
        CHECK(holds("old"));
        CHECK_MSG(file_write(path, "newer", 5, &err) == SHUNT_OK, "%s", err.text);
        CHECK(holds("newer"));
        CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
        CHECK_EQ_U64(count_files(), 1);
        end();
    }
    no_unnamed = false;
}

static void signals_leave_nothing_behind(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 12; i++) {
        int status, number = signals[i % 3];
        bool with_old = i / 3 % 2 == 0;
        no_unnamed = i / 6 == 1;
        begin(with_old);
        pid_t child = fork();
        if (child == 0) {
            signal(number, SIG_DFL);
            signal_in_fsync = number;
            file_write(path, "newer", 5, NULL);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == number, "status %d", status);
        CHECK_EQ_U64(count_files(), with_old);
        CHECK(!with_old || holds("old"));
        end();
    }
    no_unnamed = false;
}

/* Under nohup the program goes on. */
static void ignored_signals_do_nothing(void)
{
    for (int named = 0; named < 2; named++) {
        struct shunt_err err = {""};
        no_unnamed = named == 1;
        begin(false);
        signal(SIGHUP, SIG_IGN);
        signal_in_fsync = SIGHUP;
        CHECK_MSG(file_write(path, "newer", 5, &err) == SHUNT_OK, "%s", err.text);
        signal_in_fsync = 0;
        signal(SIGHUP, SIG_DFL);
        CHECK(holds("newer"));
        end();
    }
    no_unnamed = false;
}

static void failures_leave_nothing_behind(void)
{
    for (int named = 0; named < 2; named++) {
        struct shunt_err err = {""};
        no_unnamed = named == 1;
        begin(true);
        fsync_error = ENOSPC;
        CHECK_EQ_U64(file_write(path, "newer", 5, &err), SHUNT_ERR_IO);
        CHECK_CONTAINS(err.text, "a.plan\": No space left on device");
        fsync_error = 0;
        CHECK_EQ_U64(count_files(), 1);
        CHECK(holds("old"));
        end();
    }
    no_unnamed = false;
    struct shunt_err err = {""};
    CHECK_EQ_U64(file_write("/nonexistent/a.plan", "x", 1, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "write \"/nonexistent/a.plan\": No such file or directory");
}

/* Piece by piece, in any order; there is no file before it is kept, and none if it is not. */
static void takes_pieces(void)
{
    for (int i = 0; i < 4; i++) {
        struct shunt_err err = {""};
        struct output *output;
        char text[8] = "";
        bool keep = i % 2 == 1;
        no_unnamed = i / 2 == 1;
        begin(false);
        CHECK_MSG(output_open(path, &output, &err) == SHUNT_OK, "%s", err.text);
        CHECK(output_write(output, 3, "four", 4) && output_write(output, 0, "two", 3));
        CHECK(output_read(output, 1, text, 5) && strcmp(text, "wofou") == 0);
        CHECK_EQ_U64(count_files(), 0);
        CHECK(!keep || output_keep(output, &err) == SHUNT_OK);
        output_close(output);
        CHECK_EQ_U64(count_files(), keep);
        CHECK(!keep || holds("twofour"));
        end();
    }
    no_unnamed = false;
}

/* What goes wrong first is what is said; in memory there is no name to say. */
static void says_what_failed(void)
{
    struct shunt_err err = {""};
    struct output *output;
    struct rlimit before, none;
    begin(false);
    CHECK(output_open(path, &output, &err) == SHUNT_OK && getrlimit(RLIMIT_FSIZE, &before) == 0);
    none = (struct rlimit){.rlim_cur = 4, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    CHECK(!output_write(output, 4, "x", 1));
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_EQ_U64(output_fail(output, &err), SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "a.plan\": File too large");
    output_close(output);
    end();
}

static const struct test_case cases[] = {
    {"writes_and_replaces", writes_and_replaces},
    {"signals_leave_nothing_behind", signals_leave_nothing_behind},
    {"ignored_signals_do_nothing", ignored_signals_do_nothing},
    {"failures_leave_nothing_behind", failures_leave_nothing_behind},
    {"takes_pieces", takes_pieces},
    {"says_what_failed", says_what_failed},
};
TEST_MAIN(cases)
