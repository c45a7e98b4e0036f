/* SPDX-License-Identifier: Apache-2.0 */
#include "space/groups.h"

static enum shunt_status check_instances(const struct cfg_layout *layout, int64_t dense_ranks, int64_t expert_ranks,
                                         struct shunt_err *err)
{
    const struct cfg_shard *shard = &layout->shard;
    if (dense_ranks % shard->instances == 0 && expert_ranks % shard->instances == 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: shard.instances: found %lld, expected a divisor of the %lld ranks that share dense "
                      "state and the %lld that share experts",
                      layout->path, shard->pos.line, shard->pos.column, (long long)shard->instances,
                      (long long)dense_ranks, (long long)expert_ranks);
}

/** Whether all ranks of every dense shard group hold the same part of an expert. */
static bool groups_agree(struct arena *arena, const struct cfg_layout *layout, const struct grid *grid)
{
    int64_t tp = layout->size[CFG_AXIS_TP];
    int64_t *part = ARENA_NEW(arena, int64_t, (size_t)(tp * layout->size[CFG_AXIS_PP])); /* etp index + 1, by group */
    for (uint32_t r = 0; r < grid->rank_count; r++) {
        const struct grid_rank *rank = &grid->ranks[r];
        int64_t *expected = &part[rank->at[CFG_AXIS_PP] * tp + rank->at[CFG_AXIS_TP]];
        if (*expected != 0 && *expected != rank->etp + 1)
            return false;
        *expected = rank->etp + 1;
    }
    return true;
}

static enum shunt_status refuse_mixed(const struct cfg_layout *layout, const struct grid *grid, struct shunt_err *err)
{
    const struct cfg_pos pos = layout->shard.expert_buffer_pos;
    return shunt_fail(
        err, SHUNT_ERR_UNSUPPORTED,
        "%s:%u:%u: shard.expert_buffer: found `ep` with tp %lld and etp %lld, expected an etp that divides "
        "tp (not supported: experts in dense buffers whose ranks hold unlike parts of them)",
        layout->path, pos.line, pos.column, (long long)layout->size[CFG_AXIS_TP], (long long)grid->etp);
}

enum shunt_status groups_build(struct arena *arena, const struct cfg_layout *layout, const struct grid *grid,
                               bool experts, struct groups *groups_out, struct shunt_err *err)
{
    const struct cfg_shard *shard = &layout->shard;
    bool over_ep = layout->size[CFG_AXIS_EP] > 1, over_etp = grid->etp != layout->size[CFG_AXIS_TP];
    /* older Megatrons shard experts with the dense tensors even where the grids differ */
    bool with_dense = over_etp && !over_ep && shard->expert_buffer == CFG_EXPERTS_EP;
    int64_t expert_ranks = experts && !with_dense ? grid->edp : grid->dp_cp;
    *groups_out =
        (struct groups){.expert_buffer = experts && (over_ep || over_etp) && !with_dense,
                        .dense = {.shards = grid->dp_cp / shard->instances},
                        .expert = {.expert = experts && !with_dense, .shards = expert_ranks / shard->instances}};
    enum shunt_status status = check_instances(layout, grid->dp_cp, expert_ranks, err);
    if (status == SHUNT_OK && experts && with_dense && !groups_agree(arena, layout, grid))
        status = refuse_mixed(layout, grid, err);
    if (status == SHUNT_OK && shard->rule == CFG_SHARD_FSDP1 && groups_out->expert_buffer)
        status =
            shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                       "%s:%u:%u: shard.rule: found fsdp1 with experts spread over ranks, expected fsdp2 or another "
                       "rule (not supported: flat parameters that mix dense tensors and spread experts)",
                       layout->path, shard->pos.line, shard->pos.column);
    return status;
}
