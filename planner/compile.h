/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_COMPILE_H
#define SHUNT_PLANNER_COMPILE_H

/** The compiler from end to end: documents -> space -> routing -> schedule -> plan bytes. */

#include "config/config.h"
#include "emit/output.h"
#include "schedule/schedule.h"

struct compile_options {
    const char *from_path, *to_path; /* files, or the names of built-in layouts */
    const char *model;               /* overrides `model:` of both layouts; NULL: as they say */
    const char *cluster;           /* overrides `cluster:`; NULL: as the layouts say, which must agree, else "local" */
    bool any_cluster;              /* the layouts may name different ones: none is needed */
    bool cap_given;                /* false: the cluster's device memory */
    uint64_t cap;                  /* bytes per device, reserve and transport included */
    bool staging_given;            /* false: a quarter of the busiest device's traffic, 16 MiB to 1 GiB */
    uint64_t staging;              /* bytes per device over all slots */
    uint32_t place_device_count;   /* 0: the devices of the layouts may take new ranks */
    const uint32_t *place_devices; /* those that may, distinct */
    bool place_optimal;            /* choose which device takes which new rank; false: as the new layout says */
    uint32_t threads; /* to work with, 0: as many as there are processors, at most 8; the plan is the same */
    enum schedule_method method;
    double time_limit; /* seconds of each search of METHOD_EXACT, whose plan then depends on the machine; 0: none */
    bool spill_host;   /* old buffers may be parked in host memory where the cap asks for it */
};

/** Documents of one move, loaded and resolved. */
struct compile_documents {
    struct cfg_layout *from, *to;
    struct cfg_model *model;
    struct cfg_cluster *cluster;
};

/**
 * Load the documents; problems go to diag.
 *
 * @return SHUNT_ERR_INPUT (problems written), SHUNT_ERR_IO, SHUNT_ERR_NOMEM
 */
enum shunt_status compile_load(const struct compile_options *options, struct compile_documents *documents_out,
                               FILE *diag);

/** The layout at from_path and its model alone; `to` and `cluster` stay NULL. */
enum shunt_status compile_load_one(const struct compile_options *options, struct compile_documents *documents_out,
                                   FILE *diag);

/** Free what was loaded. */
void compile_unload(struct compile_documents *documents);

/**
 * Compile a move to a plan in `output`, which holds nothing yet.
 *
 * @return SHUNT_ERR_INPUT, SHUNT_ERR_UNSUPPORTED, SHUNT_ERR_INFEASIBLE, SHUNT_ERR_NOMEM, SHUNT_ERR_IO; err says why
 */
enum shunt_status compile_plan_to(const struct compile_options *options, const struct compile_documents *documents,
                                  struct output *output, struct shunt_err *err);

/**
 * The same to plan bytes in memory.
 *
 * @param bytes_out  8-byte aligned; release with free()
 * @return SHUNT_ERR_INPUT, SHUNT_ERR_UNSUPPORTED, SHUNT_ERR_INFEASIBLE, SHUNT_ERR_NOMEM; err says why
 */
enum shunt_status compile_plan(const struct compile_options *options, const struct compile_documents *documents,
                               void **bytes_out, size_t *size_out, struct shunt_err *err);

#endif
