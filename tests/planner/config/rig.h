/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_CONFIG_RIG_H
#define SHUNT_TESTS_CONFIG_RIG_H

/** Loading a text of any kind, with what is said about it. */

#include <stdlib.h>
#include <string.h>

#include "config/documents.h"
#include "config/ladder.h"
#include "config/load.h"

struct loaded {
    enum shunt_status status;
    struct cfg_model *model;
    struct cfg_cluster *cluster;
    struct cfg_layout *layout;
    struct cfg_ladder *ladder;
    struct cfg_index *index;
    char *log;
};

static inline struct loaded load_bytes(enum kind kind, const char *bytes, size_t size)
{
    struct loaded loaded = {0};
    size_t length;
    FILE *diag = open_memstream(&loaded.log, &length);
    if (diag == NULL)
        abort();
    if (kind == MODEL)
        loaded.status = cfg_model_load_memory("t", bytes, size, &loaded.model, diag);
    else if (kind == CLUSTER)
        loaded.status = cfg_cluster_load_memory("t", bytes, size, &loaded.cluster, diag);
    else if (kind == LAYOUT)
        loaded.status = cfg_layout_load_memory("t", bytes, size, &loaded.layout, diag);
    else if (kind == LADDER)
        loaded.status = cfg_ladder_load_memory("t", bytes, size, &loaded.ladder, diag);
    else
        loaded.status = cfg_index_load_memory("t", bytes, size, &loaded.index, diag);
    fclose(diag);
    return loaded;
}

static inline struct loaded load_text(enum kind kind, const char *text)
{
    return load_bytes(kind, text, strlen(text));
}

static inline void unload(struct loaded *loaded)
{
    cfg_model_free(loaded->model);
    cfg_cluster_free(loaded->cluster);
    cfg_layout_free(loaded->layout);
    cfg_ladder_free(loaded->ladder);
    cfg_index_free(loaded->index);
    free(loaded->log);
}

static inline int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

#endif
