/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chain.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shunt/verify.h"

static enum shunt_status check_device(const struct chain *chain, uint32_t next, uint32_t index, struct shunt_err *err)
{
    const struct shunt_plan_device *a = shunt_plan_get_device(chain->plans[next - 1], index);
    const struct shunt_plan_device *b = shunt_plan_get_device(chain->plans[next], index);
    if (a->id != b->id)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s runs on device id %u where %s runs on %u",
                          chain->paths[next - 1], a->id, chain->paths[next], b->id);
    if (a->to_rank != b->from_rank)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "%s leaves new rank %d on device %u, where %s expects old rank %d (-1: none)",
                          chain->paths[next - 1], (int)a->to_rank, index, chain->paths[next], (int)b->from_rank);
    return SHUNT_OK;
}

static enum shunt_status check_neighbours(const struct chain *chain, uint32_t next, struct shunt_err *err)
{
    const struct shunt_plan_header *a = shunt_plan_get_header(chain->plans[next - 1]);
    const struct shunt_plan_header *b = shunt_plan_get_header(chain->plans[next]);
    const char *first = chain->paths[next - 1], *second = chain->paths[next];
    if (memcmp(a->model_digest, b->model_digest, sizeof(a->model_digest)) != 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s and %s are for different models", first, second);
    if (memcmp(a->to_digest, b->from_digest, sizeof(a->to_digest)) != 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "the new layout of %s is not the old layout of %s", first, second);
    if (a->to_rank_count != b->from_rank_count)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s ends with %u ranks, %s starts with %u", first, a->to_rank_count,
                          second, b->from_rank_count);
    if (a->device_count != b->device_count)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s has %u devices, %s has %u", first, a->device_count, second,
                          b->device_count);
    for (uint32_t i = 0; i < a->device_count; i++) {
        enum shunt_status st = check_device(chain, next, i, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

enum shunt_status chain_open(char *const *paths, uint32_t count, struct chain *chain_out, struct shunt_err *err)
{
    struct chain chain = {.paths = paths, .count = count};
    enum shunt_status st = SHUNT_OK;
    chain.plans = calloc(count, sizeof(struct shunt_plan *));
    chain.proofs = calloc(count, sizeof(*chain.proofs));
    if (chain.plans == NULL || chain.proofs == NULL) {
        free(chain.plans);
        free(chain.proofs);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++) {
        st = shunt_plan_open(paths[i], &chain.plans[i], err);
        if (st == SHUNT_OK && i > 0)
            st = check_neighbours(&chain, i, err);
    }
    if (st != SHUNT_OK) {
        chain_close(&chain);
        return st;
    }
    chain.device_count = shunt_plan_get_header(chain.plans[0])->device_count;
    *chain_out = chain;
    return SHUNT_OK;
}

static bool names_file(const char *text, const char *path)
{
    return strncmp(text, path, strlen(path)) == 0;
}

enum shunt_status chain_verify(const struct chain *chain, struct shunt_err *err)
{
    struct shunt_verify_report *report = calloc(1, sizeof(*report));
    if (report == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < chain->count && st == SHUNT_OK; i++) {
        struct shunt_err inner = {{0}};
        st = shunt_plan_verify(chain->plans[i], report, &inner);
        if (st != SHUNT_OK)
            shunt_fail(err, st, "%s%s%s", names_file(inner.text, chain->paths[i]) ? "" : chain->paths[i],
                       names_file(inner.text, chain->paths[i]) ? "" : ": ", inner.text);
        else
            chain->proofs[i] = (struct chain_proof){.proved = true, .dropped_states = report->dropped_states};
    }
    free(report);
    return st;
}

void chain_close(struct chain *chain)
{
    for (uint32_t i = 0; i < chain->count && chain->plans != NULL; i++)
        shunt_plan_close(chain->plans[i]);
    free(chain->plans);
    free(chain->proofs);
    *chain = (struct chain){0};
}
