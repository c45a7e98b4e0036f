/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_LADDER_H
#define SHUNT_PLANNER_CONFIG_LADDER_H

/**
 * A ladder: moves that are compiled ahead of time, one plan each; and the index of the plans
 * that were made, which `shunt precompile` writes beside them. The same contracts as in config.h.
 */

#include "config.h"

struct cfg_ladder_step {
    struct cfg_pos pos;
    char *name;       /* names the plan file too: letters, digits, `.`, `_`, `-` */
    char *from;       /* layouts as written: paths relative to the ladder, or built-ins */
    char *to;         /* the same */
    char *cluster;    /* the same; NULL: as the layouts say */
    uint64_t cap;     /* bytes per device; 0: the cluster's device memory */
    uint64_t staging; /* bytes per device; 0: as the compiler chooses */
    bool spill_host;  /* old buffers may wait in host memory */
    struct cfg_pos from_pos, to_pos, cluster_pos;
};

struct cfg_ladder {
    char *path;
    char *name;
    uint32_t step_count;
    struct cfg_ladder_step *steps;
};

/** A plan in a folder. Digests and ids are 64 hexadecimal digits. */
struct cfg_index_entry {
    struct cfg_pos pos;
    char *name; /* of the step */
    char *file; /* beside the index */
    char *plan_id;
    char *compiler; /* digest of the program that made it */
    char *model, *from, *to, *cluster;
    char *model_digest, *from_digest, *to_digest, *cluster_digest;
    char *move_digest;    /* what the layouts ask of the move, beside where bytes lie before and after */
    char *asked_digest;   /* of the new layout as its document has it, where the compiler chose devices; else NULL */
    int64_t cap, staging; /* as asked for; -1: nothing was asked */
    bool spill_host;
    int64_t bytes, devices, rounds, moved, peak;
};

struct cfg_index {
    char *path;
    char *ladder; /* name */
    uint32_t entry_count;
    struct cfg_index_entry *entries;
};

enum shunt_status cfg_ladder_load(const char *path, struct cfg_ladder **out, FILE *diag);
enum shunt_status cfg_index_load(const char *path, struct cfg_index **out, FILE *diag);

/** Loading from memory, for tests and fuzzing. */
enum shunt_status cfg_ladder_load_memory(const char *name, const void *bytes, size_t size, struct cfg_ladder **out,
                                         FILE *diag);
enum shunt_status cfg_index_load_memory(const char *name, const void *bytes, size_t size, struct cfg_index **out,
                                        FILE *diag);

/** Accept NULL. */
void cfg_ladder_free(struct cfg_ladder *ladder);
void cfg_index_free(struct cfg_index *index);

/** Most steps of a ladder, and plans of an index. */
#define CFG_MOST_STEPS 4096

#endif
