/* SPDX-License-Identifier: Apache-2.0 */
/* Which launcher, which rank: a table of environments. */
#include <stdlib.h>

#include "harness.h"
#include "launch/env.h"

struct variable {
    const char *name;
    char *value;
};

struct env_case {
    const char *name;
    struct variable variables[8];
    const char *launcher; /* NULL: refused, and */
    const char *refusal;  /* the text has this */
    uint32_t rank, world, local_rank;
    const char *job;
};

#define NOT_SAID UINT32_MAX

static const struct env_case table[] = {
    {"shunt",
     {{"SHUNT_RANK", "2"}, {"SHUNT_WORLD_SIZE", "4"}, {"SHUNT_LOCAL_RANK", "1"}, {"SHUNT_JOB", "j"}},
     .launcher = "shunt",
     .rank = 2,
     .world = 4,
     .local_rank = 1,
     .job = "j"},
    {"own variables come first",
     {{"RANK", "7"}, {"WORLD_SIZE", "8"}, {"SHUNT_RANK", "2"}, {"SHUNT_WORLD_SIZE", "4"}},
     .launcher = "shunt",
     .rank = 2,
     .world = 4,
     .local_rank = NOT_SAID,
     .job = ""},
    {"torchrun",
     {{"RANK", "3"},
      {"WORLD_SIZE", "4"},
      {"LOCAL_RANK", "1"},
      {"TORCHELASTIC_RUN_ID", "ab/c d"},
      {"TORCHELASTIC_RESTART_COUNT", "2"}},
     .launcher = "torchrun",
     .rank = 3,
     .world = 4,
     .local_rank = 1,
     .job = "ab_c_d.2"},
    {"torchrun inside Slurm",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}},
     .launcher = "torchrun",
     .rank = 5,
     .world = 8,
     .local_rank = NOT_SAID,
     .job = ""},
    {"Open MPI",
     {{"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
      {"PMIX_RANK", "1"},
      {"PMIX_NAMESPACE", "12.1"}},
     .launcher = "Open MPI",
     .rank = 1,
     .world = 2,
     .local_rank = 0,
     .job = "12_1"},
    {"PMIx alone does not say how many",
     {{"PMIX_RANK", "6"}, {"PMIX_NAMESPACE", "ns"}},
     .launcher = "PMIx",
     .rank = 6,
     .world = 0,
     .local_rank = NOT_SAID,
     .job = "ns"},
    {"Slurm",
     {{"SLURM_PROCID", "9"},
      {"SLURM_NTASKS", "16"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_JOB_ID", "77"},
      {"SLURM_STEP_ID", "0"}},
     .launcher = "Slurm",
     .rank = 9,
     .world = 16,
     .local_rank = 1,
     .job = "77.0"},
    {"Slurm's step size wins",
     {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "2"}},
     .launcher = "Slurm",
     .rank = 1,
     .world = 2,
     .local_rank = NOT_SAID,
     .job = ""},
    {"MPICH",
     {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "1"}},
     .launcher = "MPICH",
     .rank = 1,
     .world = 3,
     .local_rank = 1,
     .job = ""},
    {"a job name of one's own wins",
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "x"}, {"SHUNT_JOB", "mine"}},
     .launcher = "torchrun",
     .rank = 0,
     .world = 1,
     .local_rank = NOT_SAID,
     .job = "mine"},
    {"nothing", {{"HOME", "/"}}, .refusal = "--launch N"},
    {"negative", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, .refusal = "RANK: found \"-1\""},
    {"text", {{"RANK", "one"}}, .refusal = "RANK: found \"one\""},
    {"leading zero", {{"RANK", "01"}, {"WORLD_SIZE", "4"}}, .refusal = "RANK: found \"01\""},
    {"empty", {{"SHUNT_RANK", ""}}, .refusal = "SHUNT_RANK: found \"\""},
    {"above the world", {{"RANK", "4"}, {"WORLD_SIZE", "4"}}, .refusal = "rank 4 of 4"},
    {"huge", {{"RANK", "99999999999999999999"}}, .refusal = "RANK"},
};

static const struct env_case *current;

static char *get_variable(const char *name)
{
    for (size_t i = 0; i < 8 && current->variables[i].name != NULL; i++) {
        if (strcmp(current->variables[i].name, name) == 0)
            return current->variables[i].value;
    }
    return NULL;
}

static void probes_each_launcher(void)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct env_place place;
        struct shunt_err err = {{0}};
        current = &table[i];
        enum shunt_status st = env_probe(get_variable, &place, &err);
        CHECK_MSG((st == SHUNT_OK) == (current->launcher != NULL), "%s: %s", current->name, err.text);
        if (st != SHUNT_OK) {
            CHECK_EQ_U64(st, SHUNT_ERR_USAGE);
            CHECK_CONTAINS(err.text, current->refusal);
            continue;
        }
        CHECK_STR(place.launcher, current->launcher);
        CHECK_EQ_U64(place.rank, current->rank);
        CHECK_EQ_U64(place.world, current->world);
        CHECK_EQ_U64(place.local_rank, current->local_rank);
        CHECK_STR(place.job, current->job);
    }
}

static const struct test_case cases[] = {{"probes_each_launcher", probes_each_launcher}};
TEST_MAIN(cases)
