/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

struct env_row {
    const char *launcher;
    const char *rank;
    const char *world[2]; /* the first one that is set */
    const char *local_rank;
    const char *job[3]; /* those that are set, joined */
};

/* Order matters: under torchrun in Slurm both are set, and RANK is the one that counts. */
static const struct env_row rows[] = {
    {"shunt", "SHUNT_RANK", {"SHUNT_WORLD_SIZE"}, "SHUNT_LOCAL_RANK", {"SHUNT_JOB"}},
    {"torchrun", "RANK", {"WORLD_SIZE"}, "LOCAL_RANK", {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, "OMPI_COMM_WORLD_LOCAL_RANK", {"PMIX_NAMESPACE"}},
    {"PMIx", "PMIX_RANK", {"PMIX_SIZE"}, "PMIX_LOCAL_RANK", {"PMIX_NAMESPACE"}},
    {"Slurm",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_LOCALID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
    {"MPICH", "PMI_RANK", {"PMI_SIZE"}, "MPI_LOCALRANKID", {"PMI_JOBID"}},
};

#define ENV_MAX_RANK (UINT64_C(1) << 20)

static enum shunt_status get_number(char *(*get_variable)(const char *), const char *name, uint64_t most,
                                    uint32_t *value_out, bool *found_out, struct shunt_err *err)
{
    const char *text = name == NULL ? NULL : get_variable(name);
    uint64_t value;
    *found_out = text != NULL;
    if (text == NULL)
        return SHUNT_OK;
    if (!number_parse_u64(text, &value) || value > most)
        return shunt_fail(err, SHUNT_ERR_USAGE, "environment variable %s: found \"%.40s\", expected a number up to %lu",
                          name, text, (unsigned long)most);
    *value_out = (uint32_t)value;
    return SHUNT_OK;
}

/* Anything but letters, digits, '_' and '-' becomes '_'. */
static void add_job(struct env_place *place, const char *text)
{
    size_t used = strlen(place->job);
    if (used != 0 && used + 1 < sizeof(place->job))
        place->job[used++] = '.';
    for (; *text != '\0' && used + 1 < sizeof(place->job); text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || *text == '-';
        place->job[used++] = plain ? *text : '_';
    }
    place->job[used] = '\0';
}

static enum shunt_status read_row(char *(*get_variable)(const char *), const struct env_row *row,
                                  struct env_place *place, struct shunt_err *err)
{
    bool found = false;
    for (size_t i = 0; i < 2 && !found; i++) {
        enum shunt_status st = get_number(get_variable, row->world[i], ENV_MAX_RANK, &place->world, &found, err);
        if (st != SHUNT_OK)
            return st;
    }
    if (found && place->rank >= place->world)
        return shunt_fail(err, SHUNT_ERR_USAGE, "environment of %s: rank %u of %u", row->launcher, place->rank,
                          place->world);
    enum shunt_status st = get_number(get_variable, row->local_rank, ENV_MAX_RANK, &place->local_rank, &found, err);
    if (st != SHUNT_OK)
        return st;
    const char *own = get_variable("SHUNT_JOB");
    if (own != NULL) {
        add_job(place, own);
        return SHUNT_OK;
    }
    for (size_t i = 0; i < 3 && row->job[i] != NULL; i++) {
        const char *part = get_variable(row->job[i]);
        if (part != NULL && *part != '\0')
            add_job(place, part);
    }
    return SHUNT_OK;
}

enum shunt_status env_probe(char *(*get_variable)(const char *name), struct env_place *place_out, struct shunt_err *err)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct env_place place = {.launcher = rows[i].launcher, .local_rank = UINT32_MAX};
        bool found;
        enum shunt_status st = get_number(get_variable, rows[i].rank, ENV_MAX_RANK - 1, &place.rank, &found, err);
        if (st != SHUNT_OK)
            return st;
        if (!found)
            continue;
        st = read_row(get_variable, &rows[i], &place, err);
        if (st == SHUNT_OK)
            *place_out = place;
        return st;
    }
    return shunt_fail(err, SHUNT_ERR_USAGE,
                      "no rank in the environment (looked for SHUNT_RANK, RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, "
                      "SLURM_PROCID, PMI_RANK): give --launch N, or start under a launcher");
}
