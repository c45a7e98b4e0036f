/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_CONFIG_DOCUMENTS_H
#define SHUNT_TESTS_CONFIG_DOCUMENTS_H

/** Kinds of documents, and how documents of the tests begin. */

enum kind { MODEL, CLUSTER, LAYOUT, LADDER, INDEX };

/* Lines 1 to 2; the rest of a row starts on line 3. */
#define LAYOUT_HEAD   "kind: layout\nname: x\n"
/* Lines 1 to 3; a complete layout but for what follows. */
#define LAYOUT_BASE   LAYOUT_HEAD "parallel: {tp: 2, pp: 2}\n"
/* Lines 1 to 4; tensors follow. */
#define MODEL_HEAD    "kind: model\nname: m\nlayers: 4\ntensors:\n"
/* Lines 1 to 5; tensors follow. */
#define MODEL_EXPERTS "kind: model\nname: m\nlayers: 4\nexperts: 16\ntensors:\n"
#define MODEL_TENSOR  MODEL_HEAD "- {name: t, shape: [2], stage: all}\n"
#define CLUSTER_BASE                                                                                                   \
    "kind: cluster\nname: c\ndevices_per_node: 8\nlinks: {intra_node: 2 GB/s, inter_node: 1 GB/s}\ncopy: 1 GB/s\n"
/* Lines 1 to 7; groups follow. */
#define CLUSTER_GROUPS CLUSTER_BASE "device: {memory: 8 GB, reserve: 1 GB, transport_buffers: 1 GB}\ngroups:\n"

/* Lines 1 to 4; rules follow on line 5. */
#define MESH_HEAD LAYOUT_HEAD "mesh: {names: [dp, tp], shape: [4, 2]}\nplacements:\n"
/* Lines 1 to 5; a complete layout but for what follows. */
#define MESH_BASE MESH_HEAD "- {placements: [\"Shard(0)\", Replicate]}\n"

/* Lines 1 to 4; entries follow on line 5. */
#define HOLD_HEAD LAYOUT_HEAD "ranks: 4\nholdings:\n"
/* Lines 1 to 5; a complete layout but for what follows. */
#define HOLD_BASE HOLD_HEAD "- {ranks: 0-3, tensor: a, states: [param], shape: [4, 2], boxes: [\"0:4, 0:2\"]}\n"

/* Lines 1 to 3; steps follow. */
#define LADDER_HEAD "kind: ladder\nname: l\nsteps:\n"

#define HEX_16(c) c c c c c c c c c c c c c c c c
#define HEX_64(c) HEX_16(c) HEX_16(c) HEX_16(c) HEX_16(c)

#define INDEX_HEAD               "{\"kind\": \"index\", \"ladder\": \"no\", \"plans\": [\n"
/* One line: an entry up to its counts. */
#define INDEX_DIGEST(key, digit) "\"" key "\": \"" HEX_64(digit) "\", "
#define INDEX_TEXTS(name, file, model)                                                                                 \
    "{\"name\": \"" name "\", \"plan\": \"" file "\", " INDEX_DIGEST("plan_id", "0") INDEX_DIGEST(                     \
        "compiler", "c") "\"model\": \"" model                                                                         \
                         "\", \"from\": \"f\", \"to\": \"t\", \"cluster\": \"c\", " INDEX_DIGEST("model_digest", "1")  \
                             INDEX_DIGEST("from_digest", "a") INDEX_DIGEST("to_digest", "b")                           \
                                 INDEX_DIGEST("move_digest", "e") INDEX_DIGEST("cluster_digest", "d")
#define INDEX_COUNTS(bytes) "\"bytes\": " bytes ", \"devices\": 8, \"rounds\": 9, \"moved\": 10, \"peak\": 11}"

#endif
