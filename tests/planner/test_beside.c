/* SPDX-License-Identifier: Apache-2.0 */
/** State beside the tensors: what becomes of an entry in a move, and which rank holds which row. */

#include <stdlib.h>

#include "config/load.h"
#include "harness.h"
#include "space/side.h"

#define MODEL_HEAD                                                                                                     \
    "kind: model\nname: m\nlayers: 4\nexperts: 4\n"                                                                    \
    "tensors: [{name: \"l.{i}.{e}\", shape: [4]}, {name: \"n.{i}\", shape: [4]}]\n"
#define LAYOUT(name) "kind: layout\nname: " name "\n"

/* ---- documents ------------------------------------------------------------------------- */

struct move {
    struct arena arena;
    struct cfg_model *model;
    struct cfg_layout *layouts[2];
    struct space *space;
    struct side *sides[2];
    enum shunt_status status;
    struct shunt_err err;
};

static void load(struct move *move, const char *model, const char *from, const char *to)
{
    *move = (struct move){.status = SHUNT_OK};
    CHECK_MSG(cfg_model_load_memory("m", model, strlen(model), &move->model, stdout) == SHUNT_OK, "%s", model);
    CHECK_MSG(cfg_layout_load_memory("a", from, strlen(from), &move->layouts[0], stdout) == SHUNT_OK, "%s", from);
    CHECK_MSG(cfg_layout_load_memory("b", to, strlen(to), &move->layouts[1], stdout) == SHUNT_OK, "%s", to);
    if (move->model == NULL || move->layouts[0] == NULL || move->layouts[1] == NULL)
        abort();
}

static void build(struct move *move, const char *model, const char *from, const char *to)
{
    load(move, model, from, to);
    arena_init(&move->arena);
    if (setjmp(move->arena.on_failure) != 0)
        abort();
    move->status = space_build(&move->arena, move->model, move->layouts[0], move->layouts[1], &move->space, &move->err);
    for (int s = 0; s < 2 && move->status == SHUNT_OK; s++)
        move->status = side_build(&move->arena, move->space, move->layouts[s], &move->sides[s], &move->err);
}

static void finish(struct move *move)
{
    arena_finish(&move->arena);
    cfg_model_free(move->model);
    cfg_layout_free(move->layouts[0]);
    cfg_layout_free(move->layouts[1]);
}

static const struct beside_note *note_of(const struct move *move, const char *name)
{
    const struct beside *beside = &move->space->beside;
    for (uint32_t n = 0; n < beside->note_count; n++) {
        if (strcmp(beside->notes[n].name, name) == 0)
            return &beside->notes[n];
    }
    return NULL;
}

/** Family of an entry; NULL if the move does not copy it. */
static const struct space_family *family_of(const struct move *move, const char *name)
{
    for (uint32_t f = 0; f < move->space->family_count; f++) {
        if (strcmp(move->space->families[f].name, name) == 0)
            return &move->space->families[f];
    }
    return NULL;
}

/* ---- decisions ---------------------------------------------------------------------------- */

#define ENTRY(rest)       "other_state: [{name: x, " rest "}]\n"
#define KEYED(per, other) ENTRY("bytes: 8, policy: copy-if-same, per: [" per "], otherwise: " other)
#define P(sizes)          "parallel: {" sizes "}\n"
#define MESH(names, shape)                                                                                             \
    "mesh: {names: [" names "], shape: [" shape "]}\nplacements: [{placements: [Replicate, Replicate]}]\n"

static const struct {
    const char *entry, *from, *to, *action, *why;
} decisions[] = {
    /* one policy a block, each with a change of every axis */
    {ENTRY("dtype: i64"), P("tp: 2, pp: 2"), P("dp: 4"), "copied", "the same on every rank"},
    {ENTRY("dtype: i64, why: unit is samples"), P("tp: 2"), P("dp: 2"), "copied",
     "the same on every rank; unit is samples"},
    {ENTRY("policy: recompute"), P("tp: 2"), P("dp: 2"), "recomputed", "the trainer derives it from what is copied"},
    {ENTRY("policy: recompute, why: from samples"), P("tp: 2"), P("tp: 2"), "recomputed", "from samples"},
    {ENTRY("policy: leave"), P("tp: 2"), P("tp: 2"), "left", "the trainer deals with it"},
    {KEYED("pp, tp", "reseed"), P("tp: 2, pp: 2"), P("tp: 2, pp: 2, dp: 3, cp: 2"), "copied",
     "one per pp, tp: pp 2, tp 2 on both sides"},
    {KEYED("pp, tp", "reseed"), P("tp: 2, pp: 2"), P("tp: 2, pp: 4"), "reseeded",
     "one per pp, tp: pp 2, tp 2 becomes pp 4, tp 2"},
    {KEYED("pp, tp", "reseed"), P("tp: 2, pp: 2"), P("tp: 4, pp: 1"), "reseeded",
     "one per pp, tp: pp 2, tp 2 becomes pp 1, tp 4"},
    {KEYED("pp", "reseed"), P("tp: 2, pp: 2"), P("tp: 4, pp: 2"), "copied", "one per pp: pp 2 on both sides"},
    {KEYED("pp", "reseed"), P("pp: 2"), P("pp: 2, vpp: 2"), "copied", "one per pp: pp 2 on both sides"},
    {KEYED("ep, pp, etp", "reseed"), P("dp: 4, ep: 2"), P("dp: 2, ep: 2"), "copied",
     "one per pp, ep, etp: pp 1, ep 2, etp 1 on both sides"},
    {KEYED("ep, pp, etp", "reseed"), P("dp: 4, ep: 2"), P("dp: 4, ep: 4"), "reseeded",
     "ep 2, etp 1 becomes pp 1, ep 4"},
    {KEYED("ep, pp, etp", "reseed"), P("tp: 2, dp: 2, ep: 2"), P("tp: 2, dp: 2, ep: 2, etp: 1"), "reseeded",
     "etp 2 becomes pp 1, ep 2, etp 1"},
    {KEYED("dp", "leave"), P("dp: 2"), P("dp: 4"), "left", "one per dp: dp 2 becomes dp 4"},
    {KEYED("dp", "leave"), P("dp: 2"), P("dp: 2, tp: 2"), "copied", "one per dp: dp 2 on both sides"},
    {KEYED("dp", "recompute"), P("dp: 2"), P("dp: 1"), "recomputed", "one per dp: dp 2 becomes dp 1"},
    {KEYED("cp", "refuse"), P("cp: 2"), P("cp: 2, dp: 2"), "copied", "one per cp: cp 2 on both sides"},
    {KEYED("cp", "refuse"), P("cp: 2"), P("cp: 1"), NULL,
     "b: found x of the model, one per cp: cp 2 becomes cp 1, expected axes that keep their sizes"},
    /* meshes */
    {KEYED("pp, tp", "reseed"), P("tp: 2, dp: 3"), MESH("dp, tp", "3, 2"), "copied", "pp 1, tp 2 on both sides"},
    {KEYED("pp, tp", "reseed"), P("tp: 2, dp: 3"), MESH("dp, tp", "2, 3"), "reseeded", "tp 2 becomes pp 1, tp 3"},
    {KEYED("dp", "leave"), P("dp: 6"), MESH("dp_replicate, dp_shard", "2, 3"), "copied", "dp 6 on both sides"},
    {KEYED("dp", "leave"), P("dp: 6"), MESH("fsdp, tp", "6, 2"), "copied", "dp 6 on both sides"},
    {KEYED("pp, tp", "reseed"), P("tp: 2, dp: 3"), MESH("x, tp", "3, 2"), "reseeded",
     "one per pp, tp, whose sizes layout b does not say"},
    {KEYED("ep", "reseed"), P("dp: 2"), MESH("dp, tp", "2, 1"), "reseeded",
     "one per ep, whose sizes layout b does not"},
    {KEYED("ep", "reseed"), P("dp: 2, ep: 2"), MESH("dp, ep", "1, 2"), "copied", "one per ep: ep 2 on both sides"},
    {KEYED("pp, tp", "refuse"), MESH("x, tp", "3, 2"), P("tp: 2"), NULL,
     "b: found x of the model, one per pp, tp, whose sizes layout a does not say"},
};

static void decide(size_t row, const struct move *move)
{
    const char *want = decisions[row].action;
    CHECK_MSG((move->status == SHUNT_OK) == (want != NULL), "row %zu: %s", row, move->err.text);
    if (want == NULL || move->status != SHUNT_OK) {
        CHECK_CONTAINS(move->err.text, decisions[row].why);
        return;
    }
    const struct beside_note *note = note_of(move, "x");
    CHECK_MSG(note != NULL && strcmp(note->action, want) == 0, "row %zu: %s", row, note == NULL ? "-" : note->action);
    if (note != NULL)
        CHECK_CONTAINS(note->why, decisions[row].why);
    CHECK_MSG((family_of(move, "x") != NULL) == (strcmp(want, "copied") == 0), "row %zu", row);
    CHECK_EQ_U64(beside_has_left(&move->space->beside, "x"), strcmp(want, "copied") != 0);
}

static void decisions_follow_the_policies(void)
{
    for (size_t r = 0; r < sizeof(decisions) / sizeof(decisions[0]); r++) {
        char model[1024], from[512], to[512];
        struct move move;
        snprintf(model, sizeof(model), "%s%s", MODEL_HEAD, decisions[r].entry);
        snprintf(from, sizeof(from), "%s%s", LAYOUT("a"), decisions[r].from);
        snprintf(to, sizeof(to), "%s%s", LAYOUT("b"), decisions[r].to);
        build(&move, model, from, to);
        decide(r, &move);
        finish(&move);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct {
    const char *per, *layout;
    int64_t rows;
    const char *row_of_rank; /* a digit a rank */
} places[] = {
    {"pp, tp", P("tp: 2, pp: 2"), 4, "0123"},
    {"tp, pp", P("tp: 2, pp: 2"), 4, "0123"},
    {"pp, tp", P("tp: 2, pp: 2") "order: pp-tp\n", 4, "0213"},
    {"pp", P("tp: 2, pp: 2"), 2, "0011"},
    {"tp", P("tp: 2, cp: 2, dp: 2"), 2, "01010101"},
    {"cp, dp", P("tp: 2, cp: 2, dp: 2"), 4, "00112233"},
    {"dp, cp", P("cp: 2, dp: 2"), 4, "0123"},
    {"dp, cp", P("cp: 2, dp: 2") "order: dp-cp\n", 4, "0213"},
    {"pp, ep, etp", P("tp: 2, dp: 2, pp: 2, ep: 2"), 8, "01234567"},
    {"pp, ep, etp", P("tp: 2, dp: 2, ep: 2, etp: 1"), 2, "0101"},
    {"ep", P("dp: 8, ep: 4"), 4, "01230123"},
    {"tp", MESH("dp, tp", "2, 3"), 3, "012012"},
    {"dp", MESH("dp_replicate, dp_shard", "2, 3"), 6, "012345"},
    {"tp, dp", MESH("tp, dp", "2, 3"), 6, "024135"},
};

/** Row of a rank, as the one box of its buffer says. */
static int64_t row_of(const struct side *side, const struct space_family *family, uint32_t rank)
{
    const struct placement_variant *variant = side_variant(side, family->item_begin, rank);
    if (variant == NULL || variant->holding_count != 1 || variant->shape[0] != 1 || variant->shape[1] != 8 ||
        variant->elements != 8)
        return -1;
    const struct box *box = &variant->holdings[0].box;
    return box->hi[0] == box->lo[0] + 1 && box->lo[1] == 0 && box->hi[1] == 8 ? box->lo[0] : -1;
}

static void ranks_hold_their_rows(void)
{
    for (size_t r = 0; r < sizeof(places) / sizeof(places[0]); r++) {
        char model[1024], layout[512];
        struct move move;
        snprintf(model, sizeof(model), "%sother_state: [{name: x, bytes: 8, policy: copy-if-same, per: [%s]}]\n",
                 MODEL_HEAD, places[r].per);
        snprintf(layout, sizeof(layout), "%s%s", LAYOUT("a"), places[r].layout);
        build(&move, model, layout, layout);
        CHECK_MSG(move.status == SHUNT_OK, "row %zu: %s", r, move.err.text);
        const struct space_family *family = family_of(&move, "x");
        CHECK_MSG(family != NULL && family->shape[0] == places[r].rows, "row %zu", r);
        for (uint32_t rank = 0; family != NULL && places[r].row_of_rank[rank] != '\0'; rank++)
            CHECK_MSG(row_of(move.sides[0], family, rank) == places[r].row_of_rank[rank] - '0', "row %zu rank %u", r,
                      rank);
        if (family != NULL)
            CHECK_EQ_U64(move.sides[0]->grid.rank_count, strlen(places[r].row_of_rank));
        finish(&move);
    }
}

/* ---- what a model includes -------------------------------------------------------------------- */

static void check_included(const char *model, uint32_t count, const char *has, const char *lacks)
{
    struct move move;
    load(&move, model, LAYOUT("a") P("dp: 2"), LAYOUT("b") P("dp: 2"));
    bool found = false, wrong = false;
    for (uint32_t o = 0; o < cfg_other_count(move.model); o++) {
        found |= strcmp(cfg_other_at(move.model, o)->name, has) == 0;
        wrong |= strcmp(cfg_other_at(move.model, o)->name, lacks) == 0;
    }
    CHECK_MSG(found && !wrong, "%s, %s", has, lacks);
    CHECK_EQ_U64(cfg_other_count(move.model), count);
    arena_init(&move.arena);
    finish(&move);
}

#define DENSE "kind: model\nname: m\nlayers: 4\ntensors: [{name: t, shape: [4], stage: all}]\n"

static void sets_are_included(void)
{
    check_included(MODEL_HEAD "include: megatron-state\n", 19, "rng.expert_parallel", "loss_scale.dense");
    check_included(MODEL_HEAD "include: megatron-state-fp16\n", 21, "loss_scale.expert", "t");
    check_included(DENSE "include: megatron-state\n", 17, "rng.model_parallel", "rng.expert_parallel");
    check_included(DENSE "include: megatron-state-fp16\n", 18, "loss_scale.dense", "loss_scale.expert");
    /* the model's own entries come in their place */
    check_included(DENSE "include: megatron-state\nscalars: [{name: optimizer.step, dtype: i64}]\n", 16, "rng.cuda",
                   "optimizer.step");
    check_included(DENSE "include: megatron-state\nother_state: [{name: rng.cuda, bytes: 816}]\n", 17, "rng.cuda", "t");
}

/* Nothing that the model names is without a note. */
static void everything_is_noted(void)
{
    struct move move;
    const char *model = MODEL_HEAD "include: megatron-state-fp16\nscalars: [{name: s, dtype: i64}]\n";
    build(&move, model, LAYOUT("a") P("tp: 2, pp: 2"), LAYOUT("b") P("dp: 2, pp: 2, ep: 2"));
    CHECK_MSG(move.status == SHUNT_OK, "%s", move.err.text);
    CHECK_EQ_U64(move.space->beside.note_count, 1 + cfg_other_count(move.model));
    CHECK_EQ_U64(move.space->family_count, 2 + 1 + move.space->beside.copied_count);
    for (uint32_t o = 0; o < cfg_other_count(move.model); o++)
        CHECK(note_of(&move, cfg_other_at(move.model, o)->name) != NULL);
    CHECK_STR(note_of(&move, "rng.model_parallel")->action, "reseeded");
    CHECK_STR(note_of(&move, "rng.cuda")->action, "copied");
    CHECK_STR(note_of(&move, "data.loader")->action, "left");
    CHECK_STR(note_of(&move, "loss_scale.expert")->action, "copied");
    const char *text = beside_text(&move.arena, &move.space->beside);
    CHECK(strncmp(text, "s\tcopied\tthe same on every rank\niteration\tcopied\t", 49) == 0);
    finish(&move);
}

static const struct test_case cases[] = {
    {"decisions_follow_the_policies", decisions_follow_the_policies},
    {"ranks_hold_their_rows", ranks_hold_their_rows},
    {"sets_are_included", sets_are_included},
    {"everything_is_noted", everything_is_noted},
};

TEST_MAIN(cases)
