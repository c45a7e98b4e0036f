/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "mem.h"
#include "suggest.h"

/* The build says where built-ins live: SHUNT_INSTALLED_PLANS and SHUNT_SOURCE_PLANS. */
#ifndef SHUNT_INSTALLED_PLANS
#define SHUNT_INSTALLED_PLANS NULL
#endif
#ifndef SHUNT_SOURCE_PLANS
#define SHUNT_SOURCE_PLANS NULL
#endif

#define MAX_PLACES        3
#define CFG_NEAREST_BYTES 256

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

/* Suggest what a folder has; `nearest` takes the name over, as the list does not last. */
static void suggest_from(const char *path, struct cfg_suggestion *suggestion, char nearest[CFG_NEAREST_BYTES])
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *dot = strrchr(entries[i]->d_name, '.');
        const char *best = suggestion->best;
        if (dot != NULL && strcmp(dot, ".yaml") == 0) {
            *dot = '\0';
            cfg_suggest(suggestion, entries[i]->d_name);
        }
        if (suggestion->best != best) {
            snprintf(nearest, CFG_NEAREST_BYTES, "%s", suggestion->best);
            suggestion->best = nearest;
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* The built-in whose name is nearest: those stand beside the places that were tried. */
static bool find_nearest(const struct places *places, const char *reference, char nearest[CFG_NEAREST_BYTES])
{
    struct cfg_suggestion suggestion = {.text = reference, .length = strlen(reference)};
    for (int i = 1; i < places->count; i++) {
        char *slash = strrchr(places->paths[i], '/');
        *slash = '\0';
        suggest_from(places->paths[i], &suggestion, nearest);
        *slash = '/';
    }
    return suggestion.best != NULL;
}

static void report_none(const struct places *places, const char *reference, FILE *diag)
{
    char nearest[CFG_NEAREST_BYTES];
    if (places->out_of_memory) {
        fputs("out of memory\n", diag);
        return;
    }
    fprintf(diag, "found no document for \"%s\"", reference);
    if (find_nearest(places, reference, nearest))
        fprintf(diag, " (did you mean `%s`?)", nearest);
    for (int i = 0; i < places->count; i++)
        fprintf(diag, "%s \"%s\"", i == 0 ? ", expected" : " or", places->paths[i]);
    fputc('\n', diag);
}

static char *find(const char *from_path, const char *reference, const char *folder, const char *place, FILE *diag)
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
    if (found == NULL && diag != NULL) {
        if (place != NULL)
            fprintf(diag, "%s: ", place);
        report_none(&places, reference, diag);
    }
    for (int i = 0; i < places.count; i++)
        free(places.paths[i]);
    return found;
}

char *cfg_resolve(const char *from_path, const char *reference, const char *folder, FILE *diag)
{
    return find(from_path, reference, folder, from_path, diag);
}

char *cfg_resolve_at(const char *place, const char *from_path, const char *reference, const char *folder, FILE *diag)
{
    return find(from_path, reference, folder, place, diag);
}
