/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_H
#define SHUNT_PLANNER_PLACE_H

/** Placement: which device takes which new rank, so that least has to come over the links. */

#include "place/spots.h"

struct place {
    const char *method;   /* which solver chose: "fixed" where nothing beats the layout's own choice */
    uint32_t *devices;    /* of each new rank: its device's number in the cluster */
    uint64_t moved_fixed; /* bytes that devices lack as the layouts say, and as was chosen */
    uint64_t moved;
    /* on the links, summed over ranks; no choice costs less than the bound */
    uint64_t cost_picoseconds, bound_picoseconds;
    uint32_t team_size; /* new ranks that were kept on one node; 1: none */
};

/**
 * Choose devices for the new ranks. Nothing else of the pair changes; neither does the pair.
 *
 * @param asked  devices that may be taken
 * @return SHUNT_ERR_INPUT, SHUNT_ERR_UNSUPPORTED; err says why
 */
enum shunt_status place_choose(struct arena *arena, const struct pair *pair, const struct cfg_cluster *cluster,
                               const struct spots_asked *asked, struct place *place_out, struct shunt_err *err);

#endif
