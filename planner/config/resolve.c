/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "mem.h"

/* The build says where built-ins live: SHUNT_INSTALLED_PLANS and SHUNT_SOURCE_PLANS. */
#ifndef SHUNT_INSTALLED_PLANS
#define SHUNT_INSTALLED_PLANS NULL
#endif
#ifndef SHUNT_SOURCE_PLANS
#define SHUNT_SOURCE_PLANS NULL
#endif

#define MAX_PLACES 3

/* Paths to try in turn; all are kept for the message. */
struct places {
    char *paths[MAX_PLACES];
    int count;
    bool out_of_memory;
};

/* prefix (prefix_length bytes) + a + b + c */
static void add_place(struct places *places, const char *prefix, size_t prefix_length, const char *a, const char *b,
                      const char *c)
{
    size_t size = prefix_length + strlen(a) + strlen(b) + strlen(c) + 1;
    char *path = cfg_alloc(size);
    if (path == NULL) {
        places->out_of_memory = true;
        return;
    }
    memcpy(path, prefix, prefix_length);
    char *end = stpcpy(path + prefix_length, a);
    end = stpcpy(end, b);
    stpcpy(end, c);
    places->paths[places->count++] = path;
}

static void add_beside(struct places *places, const char *from_path, const char *reference)
{
    const char *slash = from_path != NULL ? strrchr(from_path, '/') : NULL;
    if (reference[0] == '/' || slash == NULL)
        add_place(places, "", 0, reference, "", "");
    else
        add_place(places, from_path, (size_t)(slash - from_path) + 1, reference, "", "");
}

static void add_built_in(struct places *places, const char *plans, const char *folder, const char *reference)
{
    char middle[32];
    snprintf(middle, sizeof(middle), "/%s/", folder);
    add_place(places, plans, strlen(plans), middle, reference, ".yaml");
}

/* Built-ins are named without a folder, so a reference cannot lead out of the plans. */
static void add_built_ins(struct places *places, const char *folder, const char *reference)
{
    const char *const build[] = {SHUNT_INSTALLED_PLANS, SHUNT_SOURCE_PLANS};
    const char *chosen = getenv("SHUNT_PLANS");
    if (strchr(reference, '/') != NULL)
        return;
    if (chosen != NULL && chosen[0] != '\0') {
        add_built_in(places, chosen, folder, reference);
        return;
    }
    for (size_t i = 0; i < sizeof(build) / sizeof(build[0]); i++) {
        if (build[i] != NULL && build[i][0] != '\0')
            add_built_in(places, build[i], folder, reference);
    }
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static void report_none(const struct places *places, const char *from_path, const char *reference, FILE *diag)
{
    if (diag == NULL)
        return;
    if (from_path != NULL)
        fprintf(diag, "%s: ", from_path);
    if (places->out_of_memory) {
        fputs("out of memory\n", diag);
        return;
    }
    fprintf(diag, "found no document for \"%s\", expected", reference);
    for (int i = 0; i < places->count; i++)
        fprintf(diag, "%s \"%s\"", i == 0 ? "" : " or", places->paths[i]);
    fputc('\n', diag);
}

char *cfg_resolve(const char *from_path, const char *reference, const char *folder, FILE *diag)
{
    struct places places = {0};
    char *found = NULL;
    add_beside(&places, from_path, reference);
    add_built_ins(&places, folder, reference);
    for (int i = 0; i < places.count; i++) {
        if (found == NULL && !places.out_of_memory && is_file(places.paths[i])) {
            found = places.paths[i];
            places.paths[i] = NULL;
        }
    }
    if (found == NULL)
        report_none(&places, from_path, reference, diag);
    for (int i = 0; i < places.count; i++)
        free(places.paths[i]);
    return found;
}
