/* SPDX-License-Identifier: Apache-2.0 */
#include "heads.h"

#include <inttypes.h>
#include <stdio.h>

const struct cfg_choice cfg_heads_choices[] = {
    {"qkv", CFG_HEADS_QKV}, {"qgkv", CFG_HEADS_QGKV}, {"q-k-v", CFG_HEADS_Q_K_V}, {"kv", CFG_HEADS_KV}, {NULL, 0}};

void cfg_heads_check_cut(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    bool heads = cfg_node_find(scope->node, "heads") != NULL;
    bool head_dim = cfg_node_find(scope->node, "head_dim") != NULL;
    if (heads && !head_dim)
        cfg_scope_report(scope, "heads", "found it without `head_dim`, expected both or neither");
    if (head_dim && !heads)
        cfg_scope_report(scope, "head_dim", "found it without `heads`, expected both or neither");
    if (heads && tensor->pad_vocab)
        cfg_scope_report(scope, "heads", "found it beside `pad`, expected one or the other");
}

/* Each segment is all key/value heads; that of the query heads, a multiple. */
static bool segments_fit(const struct cfg_tensor *tensor, int64_t kv_rows, char *text, size_t room)
{
    for (uint32_t s = 0; s < tensor->segment_count; s++) {
        bool query = tensor->heads == CFG_HEADS_Q_K_V && s == 0;
        bool good = query ? tensor->segments[s] % kv_rows == 0 : tensor->segments[s] == kv_rows;
        if (good)
            continue;
        snprintf(text, room,
                 "found segment %" PRIu32 " of length %" PRId64 ", expected %s%" PRId64 ", kv_heads times head_dim", s,
                 tensor->segments[s], query ? "a multiple of " : "", kv_rows);
        return false;
    }
    return true;
}

/* Groups of query heads (gates), key and value head fill the only segment. */
static bool groups_fit(const struct cfg_tensor *tensor, int64_t kv_rows, char *text, size_t room)
{
    int64_t extent = tensor->segments[0], least = tensor->heads == CFG_HEADS_QKV ? 3 : 4;
    int64_t heads = extent / kv_rows; /* of a group */
    if (extent % kv_rows == 0 && heads >= least && (least == 3 || heads % 2 == 0))
        return true;
    snprintf(text, room,
             "found %" PRId64 " rows, expected kv_heads times head_dim, which is %" PRId64 ", times %s for each group",
             extent, kv_rows, least == 3 ? "2 and the query heads" : "2 and twice the query heads");
    return false;
}

bool cfg_heads_fit(const struct cfg_tensor *tensor, int64_t kv_heads, char *text, size_t room)
{
    static const uint32_t segments[] = {
        [CFG_HEADS_QKV] = 1, [CFG_HEADS_QGKV] = 1, [CFG_HEADS_Q_K_V] = 3, [CFG_HEADS_KV] = 0};
    int64_t kv_rows;
    if (tensor->heads == CFG_HEADS_NONE || tensor->head_dim == 0 || tensor->segments == NULL)
        return true;
    if (kv_heads == 0) {
        snprintf(text, room, "found heads in a model without `kv_heads`, expected how many there are");
        return false;
    }
    if (segments[tensor->heads] != 0 && segments[tensor->heads] != tensor->segment_count) {
        snprintf(text, room, "found %" PRIu32 " segments, expected %" PRIu32 " with `%s`", tensor->segment_count,
                 segments[tensor->heads], cfg_heads_choices[tensor->heads - 1].name);
        return false;
    }
    if (__builtin_mul_overflow(kv_heads, tensor->head_dim, &kv_rows))
        kv_rows = INT64_MAX;
    bool groups = tensor->heads == CFG_HEADS_QKV || tensor->heads == CFG_HEADS_QGKV;
    return groups ? groups_fit(tensor, kv_rows, text, room) : segments_fit(tensor, kv_rows, text, room);
}
