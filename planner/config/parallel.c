/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "layout.h"

const char *const cfg_axis_names[CFG_AXIS_COUNT] = {
    [CFG_AXIS_TP] = "tp", [CFG_AXIS_CP] = "cp", [CFG_AXIS_EP] = "ep", [CFG_AXIS_DP] = "dp", [CFG_AXIS_PP] = "pp"};

/* ---- parallel ----------------------------------------------------------------------- */

enum { PARALLEL_ETP = CFG_AXIS_COUNT, PARALLEL_VPP, PARALLEL_FIELD_COUNT };

/* tp * cp * dp * pp, at most CFG_MOST_RANKS + 1 */
static int64_t bounded_world(const struct cfg_layout *layout)
{
    int64_t world = 1;
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (axis != CFG_AXIS_EP && world <= CFG_MOST_RANKS)
            world *= layout->size[axis];
    }
    return world <= CFG_MOST_RANKS ? world : CFG_MOST_RANKS + 1;
}

/* The expert grid (etp, ep, expert dp, pp) has the same ranks. */
static void check_expert_grid(struct cfg_scope *scope, int64_t world)
{
    const struct cfg_layout *layout = scope->object;
    int64_t pp = layout->size[CFG_AXIS_PP], ep = layout->size[CFG_AXIS_EP];
    int64_t etp = layout->etp != 0 ? layout->etp : layout->size[CFG_AXIS_TP];
    if (world / pp % ep == 0 && world / pp / ep % etp == 0)
        return;
    cfg_scope_report(scope, cfg_node_find(scope->node, "ep") != NULL ? "ep" : "etp",
                     "found etp %" PRId64 " times ep %" PRId64 " times pp %" PRId64 ", which is %" PRId64
                     ", expected a divisor of the number of ranks, tp times cp times dp times pp, which is %" PRId64,
                     etp, ep, pp, etp * ep * pp, world);
}

static void check_parallel(struct cfg_scope *scope)
{
    int64_t world = bounded_world(scope->object);
    if (world > CFG_MOST_RANKS)
        cfg_report(scope->loader->diag, scope->node->pos, scope->path,
                   "found tp, cp, dp and pp whose product is more than %" PRId64 ", expected fewer ranks",
                   CFG_MOST_RANKS);
    else if (cfg_scope_usable(scope, CFG_BIT(PARALLEL_FIELD_COUNT) - 1))
        check_expert_grid(scope, world);
}

#define AXIS_FIELD(axis, axis_key, axis_help)                                                                          \
    [axis] = {.key = axis_key,                                                                                         \
              .type = CFG_COUNT,                                                                                       \
              CFG_MEMBER(struct cfg_layout, size[axis]),                                                               \
              CFG_POS(struct cfg_layout, size_pos[axis]),                                                              \
              .min = 1,                                                                                                \
              .max = CFG_MOST_RANKS,                                                                                   \
              .fallback = "1",                                                                                         \
              .help = axis_help}

static const struct cfg_field parallel_fields[] = {
    AXIS_FIELD(CFG_AXIS_TP, "tp", "Tensor parallel size"),
    AXIS_FIELD(CFG_AXIS_CP, "cp", "Context parallel size"),
    AXIS_FIELD(CFG_AXIS_EP, "ep", "Expert parallel size"),
    AXIS_FIELD(CFG_AXIS_DP, "dp", "Data parallel size"),
    AXIS_FIELD(CFG_AXIS_PP, "pp", "Pipeline parallel size"),
    [PARALLEL_ETP] = {.key = "etp",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, etp),
                      CFG_POS(struct cfg_layout, etp_pos),
                      .min = 1,
                      .max = CFG_MOST_RANKS,
                      .absent = 0,
                      .help = "Tensor parallel size inside an expert; absent: as tp"},
    [PARALLEL_VPP] = {.key = "vpp",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, vpp),
                      CFG_POS(struct cfg_layout, vpp_pos),
                      .min = 1,
                      .max = CFG_MOST_LAYERS,
                      .fallback = "1",
                      .help = "Chunks of layers per pipeline stage"},
};

const struct cfg_table cfg_parallel_table = {
    .help = "Sizes of the axes; tp, cp, dp and pp multiply to the number of ranks",
    .fields = parallel_fields,
    .field_count = PARALLEL_FIELD_COUNT,
    .check = check_parallel,
};

/* ---- axes ---------------------------------------------------------------------------- */

#define SIZE_FIELD(axis, axis_key, axis_help)                                                                          \
    [axis] = {.key = axis_key,                                                                                         \
              .type = CFG_COUNT,                                                                                       \
              CFG_MEMBER(struct cfg_layout, axes[axis]),                                                               \
              .min = 1,                                                                                                \
              .max = CFG_MOST_RANKS,                                                                                   \
              .absent = 0,                                                                                             \
              .help = axis_help}

static const struct cfg_field axes_fields[] = {
    SIZE_FIELD(CFG_AXIS_TP, "tp", "Tensor parallel size"),
    SIZE_FIELD(CFG_AXIS_CP, "cp", "Context parallel size"),
    SIZE_FIELD(CFG_AXIS_EP, "ep", "Expert parallel size"),
    SIZE_FIELD(CFG_AXIS_DP, "dp", "Data parallel size"),
    SIZE_FIELD(CFG_AXIS_PP, "pp", "Pipeline parallel size"),
    [PARALLEL_ETP] = {.key = "etp",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, axes_etp),
                      .min = 1,
                      .max = CFG_MOST_RANKS,
                      .absent = 0,
                      .help = "Tensor parallel size inside an expert"},
};

const struct cfg_table cfg_axes_table = {
    .help = "Sizes of the axes that the holdings were made with; one that is absent is unknown",
    .fields = axes_fields,
    .field_count = sizeof(axes_fields) / sizeof(axes_fields[0]),
};

/* ---- order ------------------------------------------------------------------------------ */

struct axis_order {
    enum cfg_axis axes[CFG_AXIS_COUNT];
    int count;
};

static bool order_has(const struct axis_order *order, int axis)
{
    for (int k = 0; k < order->count; k++) {
        if ((int)order->axes[k] == axis)
            return true;
    }
    return false;
}

/* "tp-dp-pp"; NULL, or why it is none */
static const char *scan_order(const struct cfg_node *node, struct axis_order *out)
{
    const char *at = node->text, *end = at + node->length;
    out->count = 0;
    for (bool more = true; more;) {
        const char *dash = memchr(at, '-', (size_t)(end - at));
        size_t length = (size_t)((dash != NULL ? dash : end) - at);
        int axis = 0;
        while (axis < CFG_AXIS_COUNT && (length != 2 || memcmp(at, cfg_axis_names[axis], 2) != 0))
            axis++;
        if (axis == CFG_AXIS_COUNT)
            return "not an axis between the dashes";
        if (order_has(out, axis))
            return "an axis twice";
        out->axes[out->count++] = (enum cfg_axis)axis;
        more = dash != NULL;
        at = more ? dash + 1 : end;
    }
    return NULL;
}

bool cfg_order_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_layout *layout = object;
    struct axis_order order;
    if (!cfg_site_scalar(site, field))
        return false;
    const char *reason = scan_order(site->node, &order);
    if (reason != NULL)
        return cfg_site_refuse(site, field, site->node->length != 0 ? reason : NULL);
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (!order_has(&order, axis))
            order.axes[order.count++] = (enum cfg_axis)axis;
    }
    memcpy(layout->order, order.axes, sizeof(layout->order));
    return true;
}

void cfg_order_check(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    const struct cfg_node *node = cfg_node_find(scope->node, "order");
    struct axis_order order;
    if (node == NULL || scan_order(node, &order) != NULL)
        return;
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (layout->size[axis] > 1 && !order_has(&order, axis))
            cfg_scope_report(scope, "order",
                             "found no `%s`, whose size is %" PRId64 ", expected every axis above 1 to be listed",
                             cfg_axis_names[axis], layout->size[axis]);
    }
}
