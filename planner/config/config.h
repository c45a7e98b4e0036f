/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_H
#define SHUNT_PLANNER_CONFIG_H

/**
 * What the three kinds of YAML document say, as checked structs. Loading settles syntax,
 * types, ranges and everything that one document alone can decide; what needs a model and a
 * layout together (tp must divide heads, and so on) is settled in space/.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shunt/types.h"

/** Where a value was written, for errors found later. line is 1-based; 0 means "default". */
struct cfg_pos {
    uint32_t line, column;
};

/* ---- model ------------------------------------------------------------------ */

enum cfg_stage {
    CFG_STAGE_LAYER, /* one tensor per layer, on the stage that holds the layer */
    CFG_STAGE_FIRST, /* first pipeline stage */
    CFG_STAGE_LAST,  /* last pipeline stage */
    CFG_STAGE_ALL,   /* every stage */
};

enum cfg_kind {
    CFG_KIND_WEIGHT, /* param and the optimizer states of the layout */
    CFG_KIND_BUFFER, /* state `buffer` only: no optimizer state */
};

/** A family of tensors: one name pattern, one shape, one cut rule. */
struct cfg_tensor {
    struct cfg_pos pos;
    char *name; /* "{i}" stands for the global layer number; present exactly when stage is LAYER */
    uint32_t ndim;
    int64_t shape[SHUNT_MAX_DIMS]; /* logical (unpadded) */
    enum cfg_stage stage;
    bool tied_last;                 /* stage FIRST only: a declared replica on the last stage when pp > 1 */
    int32_t cut_dim;                /* dimension split over tp; -1: replicated */
    bool pad_vocab;                 /* cut_dim 0, one segment: padded as the layout's `vocab` says before the cut */
    uint32_t segment_count;         /* fused parts along cut_dim, each cut separately; 1 if the document names none */
    int64_t *segments;              /* lengths; their sum is shape[cut_dim]; NULL when cut_dim is -1 */
    int64_t layer_begin, layer_end; /* layers that have this tensor, half-open; [0, layers) by default */
    enum cfg_kind kind;
    int32_t dtype; /* of param or buffer; -1: the layout's */
};

/** A small value that every rank holds whole, for instance the step count. */
struct cfg_scalar {
    struct cfg_pos pos;
    char *name;
    int32_t dtype;
    int64_t count; /* elements, 1 by default */
};

struct cfg_model {
    char *path; /* as opened, for messages */
    char *name;
    int64_t layers;
    int64_t heads, kv_heads; /* 0: not said; tp must divide heads, and divide kv_heads or be a multiple of it */
    uint32_t tensor_count;
    struct cfg_tensor *tensors;
    uint32_t scalar_count;
    struct cfg_scalar *scalars;
};

/* ---- cluster ------------------------------------------------------------------ */

struct cfg_cluster {
    char *path;
    char *name;
    int64_t devices_per_node;
    int64_t nodes;                      /* 0: as many as needed */
    uint64_t device_memory;             /* bytes */
    uint64_t device_reserve;            /* bytes kept free for the user, inside the memory */
    uint64_t transport_buffers;         /* bytes per device that the transport takes, inside the memory */
    double intra_node_bytes_per_second; /* per device and direction */
    double inter_node_bytes_per_second; /* per device and direction */
    double copy_bytes_per_second;       /* local copies, packs and unpacks: bytes written per second */
    double round_seconds;               /* fixed cost of one round */
    double message_seconds;             /* fixed cost of one message on a device */
};

/* ---- layout ------------------------------------------------------------------- */

enum cfg_axis { CFG_AXIS_TP, CFG_AXIS_CP, CFG_AXIS_EP, CFG_AXIS_DP, CFG_AXIS_PP, CFG_AXIS_COUNT };

/** Text of an axis ("tp"). */
extern const char *const cfg_axis_names[CFG_AXIS_COUNT];

struct cfg_layout {
    char *path;
    char *name;
    char *model;   /* as written: a built-in's name or a path relative to the document; NULL if absent */
    char *cluster; /* the same; NULL if absent */
    struct cfg_pos model_pos, cluster_pos;
    int64_t size[CFG_AXIS_COUNT]; /* tp, cp, ep, dp, pp; each 1 by default */
    struct cfg_pos size_pos[CFG_AXIS_COUNT];
    enum cfg_axis
        order[CFG_AXIS_COUNT]; /* fastest first; default tp-cp-ep-dp-pp; axes left out follow and have size 1 */
    struct cfg_pos order_pos;
    int64_t first_stage_layers, last_stage_layers; /* uneven pipeline; -1: not given */
    struct cfg_pos first_stage_pos, last_stage_pos;
    int64_t vocab_divisible_by; /* rows are padded to a multiple of this times tp; default 128 */
    int64_t vocab_padded;       /* pinned padded size; 0: computed */
    struct cfg_pos vocab_pos;
    int32_t state_dtype[SHUNT_STATE_COUNT]; /* -1: the layout does not keep this state. param is always there */
    struct cfg_pos state_pos;
    uint32_t device_count; /* 0: ranks 0..world-1 run on devices 0..world-1 */
    uint32_t *devices;     /* device of each rank, distinct */
    struct cfg_pos devices_pos;
};

/** Product of the axis sizes. Loading has checked that it fits. */
int64_t cfg_layout_world(const struct cfg_layout *layout);

/* ---- loading ------------------------------------------------------------------ */

/**
 * Load one document. All problems of a file are written to `diag`, one line each, as
 * `FILE:LINE:COL: path.to.field: found X, expected Y`.
 *
 * @return SHUNT_OK (out set; release with cfg_*_free), SHUNT_ERR_INPUT (problems written),
 *         SHUNT_ERR_IO (no such file; one line written), SHUNT_ERR_NOMEM
 */
enum shunt_status cfg_model_load(const char *path, struct cfg_model **out, FILE *diag);
enum shunt_status cfg_cluster_load(const char *path, struct cfg_cluster **out, FILE *diag);
enum shunt_status cfg_layout_load(const char *path, struct cfg_layout **out, FILE *diag);

/** Accept NULL. */
void cfg_model_free(struct cfg_model *model);
void cfg_cluster_free(struct cfg_cluster *cluster);
void cfg_layout_free(struct cfg_layout *layout);

/**
 * Path of the document that `reference` names, as written in the document at `from_path`:
 * a path relative to that document's folder if such a file exists, else the built-in
 * PLANS/`folder`/`reference`.yaml. PLANS is $SHUNT_PLANS, else the installed folder, else the
 * source tree's `plans/`.
 *
 * @param folder  "models" or "clusters"
 * @return malloc'd path, or NULL with `diag` written, naming both places that were tried
 */
char *cfg_resolve(const char *from_path, const char *reference, const char *folder, FILE *diag);

/** Parse "512 MiB" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB; decimals allowed with a unit). */
enum shunt_status cfg_parse_size(const char *text, uint64_t *bytes_out, struct shunt_err *err);

#endif
