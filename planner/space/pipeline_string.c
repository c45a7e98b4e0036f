/* SPDX-License-Identifier: Apache-2.0 */
#include "space/pipeline_string.h"

#include <string.h>

#define MAX_SYMBOLS (1 << 20) /* after expansion */

typedef VEC(char) symbols;

/** A string being expanded. */
struct expansion {
    struct arena *arena;
    const char *at;
    symbols out;
    const char *problem; /* first thing wrong; NULL so far */
};

static void append(struct expansion *expansion, const char *text, size_t length, int64_t times)
{
    if (length > 0 && times > (int64_t)(MAX_SYMBOLS / length)) {
        expansion->problem = "a repetition that is too long";
        return;
    }
    for (int64_t i = 0; i < times && expansion->problem == NULL; i++) {
        for (size_t c = 0; c < length; c++)
            *VEC_PUSH(expansion->arena, &expansion->out) = text[c];
        if (expansion->out.count > MAX_SYMBOLS)
            expansion->problem = "more symbols than a pipeline can have";
    }
}

/** The count behind "*"; 1 without one. */
static int64_t read_times(struct expansion *expansion)
{
    int64_t times = 0;
    if (*expansion->at != '*')
        return 1;
    expansion->at++;
    if (*expansion->at < '1' || *expansion->at > '9') {
        expansion->problem = "`*` without a count";
        return 0;
    }
    while (*expansion->at >= '0' && *expansion->at <= '9') {
        times = times * 10 + (*expansion->at++ - '0');
        if (times > MAX_SYMBOLS) {
            expansion->problem = "a repetition that is too long";
            return 0;
        }
    }
    return times;
}

static bool is_symbol(char c)
{
    return c != '\0' && strchr("EtmL|", c) != NULL;
}

/** "(...)*n": what stands in the brackets is flat, and may itself repeat single symbols. */
static void read_group(struct expansion *expansion)
{
    symbols before = expansion->out;
    expansion->out = (symbols){0};
    expansion->at++;
    while (is_symbol(*expansion->at) && expansion->problem == NULL) {
        const char *symbol = expansion->at++;
        append(expansion, symbol, 1, read_times(expansion));
    }
    symbols group = expansion->out;
    expansion->out = before;
    if (expansion->problem == NULL && *expansion->at != ')')
        expansion->problem = "brackets that are nested or not closed";
    else if (expansion->problem == NULL && group.count == 0)
        expansion->problem = "empty brackets";
    if (expansion->problem != NULL)
        return;
    expansion->at++;
    append(expansion, group.items, group.count, read_times(expansion));
}

static void expand(struct expansion *expansion)
{
    while (*expansion->at != '\0' && expansion->problem == NULL) {
        if (*expansion->at == ',') {
            expansion->at++;
        } else if (*expansion->at == '(') {
            read_group(expansion);
        } else if (is_symbol(*expansion->at)) {
            const char *symbol = expansion->at++;
            append(expansion, symbol, 1, read_times(expansion));
        } else {
            expansion->problem = "a character other than E t m L | ( ) * , and digits";
        }
    }
}

/** Commas separate nothing: take them out first, so that they may stand anywhere. */
static char *without_commas(struct arena *arena, const char *text)
{
    char *out = ARENA_NEW(arena, char, strlen(text) + 1);
    size_t count = 0;
    for (; *text != '\0'; text++) {
        if (*text != ',')
            out[count++] = *text;
    }
    return out;
}

struct census {
    int64_t embeddings, losses, layers, mtp_chunks, last_mtp, last_layer;
};

static struct census count_symbols(const symbols *all, struct pipeline *pipeline)
{
    struct census census = {.last_mtp = -1, .last_layer = -1};
    int64_t chunk = 0;
    for (size_t i = 0; i < all->count; i++) {
        switch (all->items[i]) {
        case '|':
            pipeline->chunk_begin[++chunk] = census.layers;
            break;
        case 'E':
            pipeline->embedding_chunk = chunk;
            census.embeddings++;
            break;
        case 'L':
            pipeline->loss_chunk = chunk;
            census.losses++;
            break;
        case 'm':
            pipeline->mtp_chunk = chunk;
            census.mtp_chunks += census.last_mtp < 0 || all->items[i - 1] == '|';
            census.last_mtp = (int64_t)i;
            break;
        default:
            census.layers++;
            census.last_layer = (int64_t)i;
        }
    }
    pipeline->chunk_begin[chunk + 1] = census.layers;
    return census;
}

/** What is wrong with the expanded string; NULL if nothing. */
static const char *judge(const struct census *census, const struct pipeline *pipeline, const struct cfg_model *model)
{
    if (pipeline->chunks % pipeline->stages != 0)
        return "a number of chunks that pp does not divide";
    if (census->layers != model->layers)
        return "another number of layers than the model has";
    if (census->embeddings != 1 || pipeline->embedding_chunk != 0)
        return "no single E in the first chunk";
    if (census->losses != 1 || pipeline->loss_chunk != pipeline->chunks - 1)
        return "no single L in the last chunk";
    if ((census->last_mtp >= 0) != model->mtp)
        return model->mtp ? "no m, although the model has an MTP block" : "an m, although the model has no MTP block";
    if (census->mtp_chunks > 1 || (census->last_mtp >= 0 && census->last_mtp < census->last_layer))
        return "m in several chunks, or in front of a layer";
    if (census->last_mtp >= 0 && pipeline->mtp_chunk / pipeline->stages != pipeline->chunks / pipeline->stages - 1)
        return "m in a chunk that is not the last one of its stage";
    return NULL;
}

enum shunt_status pipeline_string_parse(struct arena *arena, const struct cfg_layout *layout,
                                        const struct cfg_model *model, struct pipeline *pipeline, struct shunt_err *err)
{
    struct expansion expansion = {.arena = arena, .at = without_commas(arena, layout->pipeline_layout)};
    expand(&expansion);
    const char *problem = expansion.problem;
    if (problem == NULL) {
        pipeline->chunks = 1;
        for (size_t i = 0; i < expansion.out.count; i++)
            pipeline->chunks += expansion.out.items[i] == '|';
        pipeline->chunk_begin = ARENA_NEW(arena, int64_t, pipeline->chunks + 1);
        pipeline->mtp_chunk = pipeline->chunks - 1;
        struct census census = count_symbols(&expansion.out, pipeline);
        problem = judge(&census, pipeline, model);
        if (problem == NULL && layout->vpp > 1 && layout->vpp != pipeline->chunks / pipeline->stages)
            problem = "another number of chunks per stage than vpp says";
    }
    if (problem == NULL)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: pipeline.layout: found %s in \"%.200s\" (the model has %lld layers, pp is %lld)",
                      layout->path, layout->pipeline_layout_pos.line, layout->pipeline_layout_pos.column, problem,
                      layout->pipeline_layout, (long long)model->layers, (long long)pipeline->stages);
}
