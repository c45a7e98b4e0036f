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
    CFG_STAGE_FIRST, /* with the embedding: first chunk of the pipeline */
    CFG_STAGE_LAST,  /* with the loss: last chunk of the pipeline */
    CFG_STAGE_FINAL, /* final norm: the last chunk, or with MTP the chunk of the last layer */
    CFG_STAGE_MTP,   /* multi-token prediction block: the last chunk unless a pipeline layout says otherwise */
    CFG_STAGE_ALL,   /* every stage */
};

enum cfg_kind {
    CFG_KIND_WEIGHT, /* param and the optimizer states of the layout */
    CFG_KIND_BUFFER, /* state `buffer` only: no optimizer state */
};

/** How a cut dimension is made of attention heads, so that whole heads can be told apart. */
enum cfg_heads {
    CFG_HEADS_NONE,  /* not said */
    CFG_HEADS_QKV,   /* one part, group by group: the group's query heads, its key head, its value head */
    CFG_HEADS_QGKV,  /* the same, with an output gate for each query head behind the query heads */
    CFG_HEADS_Q_K_V, /* three segments: query heads, key heads, value heads */
    CFG_HEADS_KV,    /* key or value heads alone; each segment has all of them */
};

/** A family of tensors: one name pattern, one shape, one cut rule. */
struct cfg_tensor {
    struct cfg_pos pos;
    char
        *name; /* "{i}" stands for the global layer number, present exactly when stage is LAYER; "{e}" for the expert */
    bool expert; /* the name has "{e}": one tensor per expert, stage LAYER or MTP, cut over etp instead of tp */
    uint32_t ndim;
    int64_t shape[SHUNT_MAX_DIMS]; /* logical (unpadded) */
    enum cfg_stage stage;
    bool tied_last;                 /* stage FIRST only: a declared replica on the last stage when pp > 1 */
    bool tied_mtp;                  /* stage FIRST only: a declared replica with the MTP block, if that is elsewhere */
    int32_t cut_dim;                /* dimension split over tp; -1: replicated */
    bool pad_vocab;                 /* cut_dim 0, one segment: padded as the layout's `vocab` says before the cut */
    uint32_t segment_count;         /* fused parts along cut_dim, each cut separately; 1 if the document names none */
    int64_t *segments;              /* lengths; their sum is shape[cut_dim]; NULL when cut_dim is -1 */
    enum cfg_heads heads;           /* what cut_dim is made of */
    int64_t head_dim;               /* rows of a head along cut_dim; 0 when heads is NONE */
    int64_t layer_begin, layer_end; /* layers that have this tensor, half-open; [0, layers) by default */
    uint32_t layer_count;           /* entries of layer_list; 0 when that is NULL */
    int64_t *layer_list; /* layers that have it, ascending, all in [layer_begin, layer_end); NULL: all those */
    enum cfg_kind kind;
    int32_t dtype; /* of param or buffer; -1: the layout's */
    char *group;   /* parameter group; NULL: none */
};

/** A small value that every rank holds whole, for instance the step count. */
struct cfg_scalar {
    struct cfg_pos pos;
    char *name;
    int32_t dtype;
    int64_t count; /* elements, 1 by default */
};

/** Axes along which copies of an entry beside the tensors may differ; rows count with the first one slowest. */
enum cfg_key { CFG_KEY_PP, CFG_KEY_DP, CFG_KEY_CP, CFG_KEY_EP, CFG_KEY_ETP, CFG_KEY_TP, CFG_KEY_COUNT };

/** Text of a key ("etp"), of a policy ("copy-if-same"). */
extern const char *const cfg_key_names[CFG_KEY_COUNT];
extern const char *const cfg_policy_names[];

enum cfg_policy {
    CFG_POLICY_COPY,         /* the same on every rank: moved */
    CFG_POLICY_COPY_IF_SAME, /* moved if the axes of `per` have the same sizes on both sides */
    CFG_POLICY_RECOMPUTE,    /* not moved: the trainer derives it */
    CFG_POLICY_LEAVE,        /* not moved: the trainer's, or another program's */
};

/** What becomes of an entry of policy COPY_IF_SAME when the axes do not keep their sizes. */
enum cfg_otherwise { CFG_OTHERWISE_LEAVE, CFG_OTHERWISE_RESEED, CFG_OTHERWISE_RECOMPUTE, CFG_OTHERWISE_REFUSE };

/** An entry of the state beside the tensors. */
struct cfg_other {
    struct cfg_pos pos;
    char *name;
    enum cfg_policy policy;
    int32_t dtype;           /* -1: an opaque blob of `count` bytes */
    int64_t count, bytes;    /* elements; `bytes` is as written, 0 if it was not */
    bool per[CFG_KEY_COUNT]; /* COPY_IF_SAME: some, of one grid of ranks; else none */
    enum cfg_otherwise otherwise;
    char *why;      /* NULL: nothing was said */
    char *identity; /* of a parameter group; else NULL */
};

#define CFG_MOST_INCLUDED 32

struct cfg_model {
    char *path; /* as opened, for messages */
    char *name;
    int64_t layers;
    int64_t heads, kv_heads; /* 0: not said; tp must divide heads, and divide kv_heads or be a multiple of it */
    int64_t experts;         /* experts per layer; 0: none */
    bool mtp;                /* some tensor has stage MTP */
    uint32_t tensor_count;
    struct cfg_tensor *tensors;
    uint32_t scalar_count;
    struct cfg_scalar *scalars;
    uint32_t other_count;
    struct cfg_other *others; /* `other_state` */
    uint32_t group_count;
    struct cfg_other *groups; /* `param_groups`: policy COPY */
    int32_t include;          /* built-in set of entries; 0: none */
    struct cfg_pos include_pos;
    uint32_t included_count; /* entries of that set that the model does not have itself */
    const struct cfg_other *included[CFG_MOST_INCLUDED];
};

/** Entries beside the tensors, without scalars: `other_state`, `param_groups`, then what is included. */
uint32_t cfg_other_count(const struct cfg_model *model);
const struct cfg_other *cfg_other_at(const struct cfg_model *model, uint32_t index);

/** Whether copies differ along some axis; whether some plan moves it. */
bool cfg_other_is_keyed(const struct cfg_other *other);
bool cfg_other_may_move(const struct cfg_other *other);

/** Number of layers that have this tensor; 1 when its stage is not LAYER. */
int64_t cfg_tensor_layers(const struct cfg_tensor *tensor);

/** The index-th of them, below cfg_tensor_layers(), as a global layer number; 0 when the stage is not LAYER. */
int64_t cfg_tensor_layer(const struct cfg_tensor *tensor, int64_t index);

/* ---- cluster ------------------------------------------------------------------ */

/**
 * Nodes that are unlike the others. What their entry does not say is as in the rest of the cluster: 0 here, but
 * for `nodes`.
 */
struct cfg_group {
    struct cfg_pos pos, nodes_pos;
    uint32_t node_count;
    uint32_t *nodes; /* as written */
    int64_t devices_per_node;
    uint64_t device_memory;
    double intra_node_bytes_per_second, inter_node_bytes_per_second, node_inter_node_bytes_per_second;
    double channel_bytes_per_second;
    int64_t channels;
    double host_to_device_bytes_per_second, device_to_host_bytes_per_second;
    double copy_bytes_per_second, pack_bytes_per_second, unpack_bytes_per_second;
};

struct cfg_cluster {
    char *path;
    char *name;
    int64_t devices_per_node;
    int64_t nodes;                           /* 0: as many as needed */
    uint64_t device_memory;                  /* bytes */
    uint64_t device_reserve;                 /* bytes kept free for the user, inside the memory */
    uint64_t transport_buffers;              /* bytes per device that the transport takes, inside the memory */
    uint64_t transport_per_peer;             /* and for each peer of a device; a multiple of CFG_PEER_UNIT */
    double intra_node_bytes_per_second;      /* per device and direction */
    double inter_node_bytes_per_second;      /* per device and direction */
    double node_inter_node_bytes_per_second; /* per node and direction; 0: what its devices have together */
    double channel_bytes_per_second;         /* of one channel of a message between nodes; 0: no limit */
    int64_t channels;                        /* of a message between nodes */
    double host_to_device_bytes_per_second;  /* per device; 0: no limit */
    double device_to_host_bytes_per_second;  /* the same */
    double copy_bytes_per_second;            /* local copies: bytes written per second */
    double pack_bytes_per_second;            /* 0: as copies */
    double unpack_bytes_per_second;          /* 0: as copies */
    double round_seconds;                    /* fixed cost of one round */
    double message_seconds;                  /* fixed cost of one message on a device */
    uint32_t group_count;
    struct cfg_group *groups;
    uint32_t grouped_nodes; /* 1 + the highest node of a group */
    uint32_t *group_of;     /* by node below that: 1 + its group; 0: none */
};

/** transport_per_peer is a multiple of it: plans count so. */
#define CFG_PEER_UNIT 1024

/** What the devices of one node are like: every rate is above 0 or, where there is no limit, infinite. */
struct cfg_machine {
    int64_t devices_per_node;
    uint64_t memory;
    double intra_node, inter_node; /* bytes per second, per device and direction */
    double node_inter_node;        /* of all devices of the node together, per direction */
    double message;                /* of one message between nodes */
    double host_to_device, device_to_host;
    double copy, pack, unpack;
};

/** @param group  0: nodes of no group; 1..group_count: those of groups[group - 1] */
struct cfg_machine cfg_cluster_machine(const struct cfg_cluster *cluster, uint32_t group);

/** Group of a node, as cfg_cluster_machine() takes it. */
uint32_t cfg_cluster_group(const struct cfg_cluster *cluster, uint64_t node);

/* ---- layout ------------------------------------------------------------------- */

enum cfg_axis { CFG_AXIS_TP, CFG_AXIS_CP, CFG_AXIS_EP, CFG_AXIS_DP, CFG_AXIS_PP, CFG_AXIS_COUNT };

/** Text of an axis ("tp"). */
extern const char *const cfg_axis_names[CFG_AXIS_COUNT];

/** How state is cut over the data-parallel group (dp times cp for dense tensors, expert dp for experts). */
enum cfg_shard_rule {
    CFG_SHARD_NONE,     /* everything replicated */
    CFG_SHARD_MEGATRON, /* optimizer states as ranges of flat buffers (distributed optimizer) */
    CFG_SHARD_ZERO1,    /* optimizer states as ranges of one flat group (DeepSpeed stages 1 and 2) */
    CFG_SHARD_ZERO3,    /* all states, each tensor flat and cut on its own (DeepSpeed stage 3) */
    CFG_SHARD_FSDP2,    /* all states, rows of each tensor in ceil chunks (PyTorch fully_shard) */
    CFG_SHARD_FSDP1,    /* all states as ranges of one flat parameter per layer (PyTorch FullyShardedDataParallel) */
};

/** How a rank's experts are registered, which decides where they lie in flat buffers. */
enum cfg_experts {
    CFG_EXPERTS_GROUPED,    /* module by module: all experts of one, then all of the next */
    CFG_EXPERTS_SEQUENTIAL, /* expert by expert: all its modules, then the next expert */
    CFG_EXPERTS_STACKED,    /* one tensor for all experts of a weight */
};

/** When Megatron gives experts buffers, and a shard group, of their own. Otherwise they lie among dense tensors. */
enum cfg_expert_buffer {
    CFG_EXPERTS_EP_OR_ETP, /* ep > 1 or etp unlike tp: core_v0.19 and later */
    CFG_EXPERTS_EP,        /* ep > 1: core_v0.18 and older */
};

struct cfg_shard {
    struct cfg_pos pos;
    enum cfg_shard_rule rule;
    enum cfg_experts experts;
    int64_t instances;       /* complete copies of the shards: optimizer instances, or HSDP's replicas; default 1 */
    int64_t bucket_elements; /* MEGATRON: buckets of the first chunk close at this size; 0: one bucket */
    bool pad_high_bandwidth; /* MEGATRON: buckets end at multiples of 2^16 too */
    enum cfg_expert_buffer expert_buffer; /* MEGATRON; default EP_OR_ETP */
    struct cfg_pos expert_buffer_pos;
    bool use_orig_params; /* FSDP1: each tensor starts at a multiple of 16 bytes; default true */
    char **order;         /* registration order of families, by name pattern; NULL: as the model document lists them */
    uint32_t order_count;
    struct cfg_pos order_pos;
};

/** A box of a tensor inside a local buffer, of an explicit layout. */
struct cfg_box {
    uint32_t ndim;
    int64_t lo[SHUNT_MAX_DIMS], hi[SHUNT_MAX_DIMS]; /* global indices, half-open */
    int64_t offset;                                 /* of element lo in the buffer, in elements */
    uint32_t stride_count;                          /* 0: not given, else ndim */
    int64_t stride[SHUNT_MAX_DIMS];                 /* per dimension, in elements */
};

/** One buffer of an explicit layout: some states of one tensor, cut alike, on declared replicas. */
struct cfg_holding {
    struct cfg_pos pos;
    uint32_t rank_count;
    uint32_t *ranks; /* ascending, distinct: replicas of each other */
    char *tensor;    /* global name */
    bool state[SHUNT_STATE_COUNT];
    bool copy;                     /* its boxes may also be held, cut otherwise, by another entry */
    uint32_t ndim;                 /* of the local buffer */
    int64_t shape[SHUNT_MAX_DIMS]; /* of the local buffer; a first extent of 0 is an empty shard */
    uint32_t box_count;
    struct cfg_box *boxes;
};

enum cfg_placement_kind { CFG_PLACE_REPLICATE, CFG_PLACE_SHARD, CFG_PLACE_STRIDED };

/** What one mesh axis does to a tensor. */
struct cfg_placement {
    enum cfg_placement_kind kind;
    int32_t dim;          /* SHARD, STRIDED */
    int64_t split_factor; /* STRIDED: parts that axes to the right cut the dimension into first */
};

#define CFG_MAX_MESH 6

/** Placements of the tensors that match a pattern. */
struct cfg_mesh_rule {
    struct cfg_pos pos;
    char *tensor; /* name or pattern of the model document; NULL: every tensor without a rule of its own */
    bool state[SHUNT_STATE_COUNT]; /* states it speaks of; all when none was written */
    uint32_t count;
    struct cfg_placement placement[CFG_MAX_MESH]; /* one per mesh axis */
};

/** DTensor form: ranks are numbered row-major over the mesh, the last axis fastest. */
struct cfg_mesh {
    struct cfg_pos pos;
    uint32_t axis_count; /* 0: the layout has no mesh */
    char *names[CFG_MAX_MESH];
    int64_t shape[CFG_MAX_MESH];
    uint32_t rule_count;
    struct cfg_mesh_rule *rules;
};

/** Memory in which a state lives. */
enum cfg_tier { CFG_TIER_DEVICE, CFG_TIER_HOST };

/** Whether narrow values of a state are multiplied by a scale. */
enum cfg_scale {
    CFG_SCALE_UNSAID, /* as NONE; refused where the dtype may go with scales */
    CFG_SCALE_NONE,
    CFG_SCALE_SHARD, /* one fp32 scale for what a rank owns of a tensor */
};

/** What gradients hold, if the layout keeps them. */
enum cfg_gradients {
    CFG_GRADIENTS_REDUCED, /* sums over all ranks; where states are sharded, valid in the own shard only */
    CFG_GRADIENTS_PARTIAL, /* sums of a step that is under way: refused */
};

/** Order in which the dimensions of some tensors lie in memory. */
struct cfg_storage {
    struct cfg_pos pos;
    char *tensor; /* name or pattern of the model document */
    uint32_t ndim;
    int64_t dims[SHUNT_MAX_DIMS]; /* dimensions of the tensor, from the outermost in memory to the innermost */
};

/** Which of the forms a layout document has. */
enum cfg_layout_form { CFG_FORM_PARALLEL, CFG_FORM_MESH, CFG_FORM_HOLDINGS };

struct cfg_layout {
    char *path;
    char *name;
    char *model;   /* as written: a built-in's name or a path relative to the document; NULL if absent */
    char *cluster; /* the same; NULL if absent */
    struct cfg_pos model_pos, cluster_pos;
    int64_t size[CFG_AXIS_COUNT]; /* tp, cp, ep, dp, pp; each 1 by default; dp is that of dense tensors */
    struct cfg_pos size_pos[CFG_AXIS_COUNT];
    enum cfg_axis
        order[CFG_AXIS_COUNT]; /* fastest first; default tp-cp-ep-dp-pp; axes left out follow and have size 1 */
    struct cfg_pos order_pos;
    int64_t etp; /* tensor parallelism inside an expert; 0: as tp */
    int64_t vpp; /* pipeline chunks per stage; default 1 */
    struct cfg_pos etp_pos, vpp_pos;
    int64_t first_stage_layers, last_stage_layers; /* uneven pipeline; -1: not given */
    struct cfg_pos first_stage_pos, last_stage_pos;
    bool count_embedding, count_loss; /* the embedding, the loss, takes the place of a layer in the split */
    char *pipeline_layout;            /* "Et*3|(tt|)*29,m|L"; NULL: not given; excludes the four fields above */
    struct cfg_pos pipeline_layout_pos;
    struct cfg_shard shard;
    bool kv_replicate; /* attention.kv: a rank has whole key and value heads, also when tp is above their number */
    struct cfg_pos attention_pos;
    uint32_t storage_count; /* tensors that do not lie row by row */
    struct cfg_storage *storage;
    int64_t vocab_divisible_by; /* rows are padded to a multiple of this times tp; default 128 */
    int64_t vocab_padded;       /* pinned padded size; 0: computed */
    struct cfg_pos vocab_pos;
    int32_t state_dtype[SHUNT_STATE_COUNT]; /* -1: the layout does not keep this state. param is always there */
    int32_t state_tier[SHUNT_STATE_COUNT];  /* enum cfg_tier */
    int32_t state_scale[SHUNT_STATE_COUNT]; /* enum cfg_scale */
    int32_t gradients;                      /* enum cfg_gradients */
    bool state_derived[SHUNT_STATE_COUNT];  /* a move to this layout makes param from master, or master from param */
    struct cfg_pos state_pos;               /* the document's, where it does not say `state` */
    bool state_default;                     /* it does not */
    bool current_owner; /* of a weight, only what the rank's own optimizer shard covers is current */
    struct cfg_pos current_pos;
    enum cfg_layout_form form;
    struct cfg_mesh mesh;
    int64_t ranks; /* HOLDINGS: number of ranks */
    uint32_t holding_count;
    struct cfg_holding *holdings;
    uint32_t device_count;                  /* 0: ranks 0..world-1 run on devices 0..world-1 */
    uint32_t *devices;                      /* device of each rank, distinct */
    struct cfg_pos devices_pos, ranks_pos;  /* ranks: of `parallel`, `mesh` or `ranks` */
    int64_t axes[CFG_AXIS_COUNT], axes_etp; /* HOLDINGS: sizes that entries beside the tensors go by; 0: unknown */
};

/**
 * Number of ranks: tp times cp times dp times pp, or what the mesh or the holdings say. The expert grid (etp, ep, expert dp, pp) lies over the same
 * ranks, so ep is no factor: loading has checked that etp times ep times pp divides the product, and that it fits.
 * In the numbering of dense tensors ep counts as 1, in that of experts cp does.
 */
int64_t cfg_layout_world(const struct cfg_layout *layout);

/** State of an old layout that a move to this one makes a state from; as a rule the same state. */
enum shunt_state cfg_layout_derived_from(const struct cfg_layout *layout, enum shunt_state state);

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
 * @return malloc'd path, or NULL with `diag` written, naming the places that were tried and the nearest built-in
 */
char *cfg_resolve(const char *from_path, const char *reference, const char *folder, FILE *diag);

/** The same; the message starts with `place`, which says where the reference is written ("l.yaml:3:8: model"). */
char *cfg_resolve_at(const char *place, const char *from_path, const char *reference, const char *folder, FILE *diag);

/** Parse "512 MiB" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB; decimals allowed with a unit). */
enum shunt_status cfg_parse_size(const char *text, uint64_t *bytes_out, struct shunt_err *err);

#endif
