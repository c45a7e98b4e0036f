/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "names.h"
#include "tables.h"

#define MOST_BYTES  (INT64_C(1) << 50)
#define MOST_NODES  (1 << 20)
#define MOST_GROUPS 64

/* ---- fields that nodes of a group may have of their own ------------------------------- */

/* `owner` is the cluster or a group, which has the same members; a cluster `must` have some, a group need not. */
#define RATE_FIELD(owner, must, name, member, text)                                                                    \
    {                                                                                                                  \
        .key = (name), .type = CFG_RATE, .required = (must), CFG_MEMBER(owner, member), .help = (text)                 \
    }

#define MEMORY_FIELD(owner, must)                                                                                      \
    {                                                                                                                  \
        .key = "memory", .type = CFG_SIZE, .required = (must), CFG_MEMBER(owner, device_memory), .min = 1,             \
        .max = MOST_BYTES, .help = "Memory of one device"                                                              \
    }

#define NODE_FIELD(owner, must)                                                                                        \
    {                                                                                                                  \
        .key = "devices_per_node", .type = CFG_COUNT, .required = (must), CFG_MEMBER(owner, devices_per_node),         \
        .min = 1, .max = 1 << 20, .help = "Devices of one node; devices are numbered node by node"                     \
    }

#define LINK_FIELDS(owner, must)                                                                                       \
    RATE_FIELD(owner, must, "intra_node", intra_node_bytes_per_second,                                                 \
               "Between devices of one node, per device and direction"),                                               \
        RATE_FIELD(owner, must, "inter_node", inter_node_bytes_per_second,                                             \
                   "Between devices of different nodes, per device and direction"),                                    \
        RATE_FIELD(owner, false, "node_inter_node", node_inter_node_bytes_per_second,                                  \
                   "Between nodes, of all devices of one node together, per direction; absent: what they have each"),  \
        RATE_FIELD(owner, false, "channel", channel_bytes_per_second,                                                  \
                   "One channel of a message between nodes; absent: a message may take all that its devices have"),    \
        {.key = "channels",                                                                                            \
         .type = CFG_COUNT,                                                                                            \
         CFG_MEMBER(owner, channels),                                                                                  \
         .min = 1,                                                                                                     \
         .max = 1024,                                                                                                  \
         .absent = (must) ? 1 : 0,                                                                                     \
         .help = "Channels of a message between nodes"},                                                               \
        RATE_FIELD(owner, false, "host_to_device", host_to_device_bytes_per_second,                                    \
                   "From host memory, per device; absent: no limit"),                                                  \
        RATE_FIELD(owner, false, "device_to_host", device_to_host_bytes_per_second,                                    \
                   "To host memory, per device; absent: no limit")

#define COPY_FIELDS(owner, must)                                                                                       \
    RATE_FIELD(owner, must, "copy", copy_bytes_per_second, "Local copies: bytes written per second"),                  \
        RATE_FIELD(owner, false, "pack", pack_bytes_per_second, "Packs; absent: as copies"),                           \
        RATE_FIELD(owner, false, "unpack", unpack_bytes_per_second, "Unpacks; absent: as copies")

/* ---- device ------------------------------------------------------------------------------ */

enum { DEVICE_MEMORY, DEVICE_RESERVE, DEVICE_TRANSPORT, DEVICE_PER_PEER };

/* false when reserve and transport buffers take all of a memory */
static bool leaves_something(const struct cfg_cluster *cluster, uint64_t memory)
{
    uint64_t taken;
    return !__builtin_add_overflow(cluster->device_reserve, cluster->transport_buffers, &taken) && taken < memory;
}

#define LEAVES_NOTHING                                                                                                 \
    "found %" PRIu64 " bytes, of which reserve and transport_buffers leave nothing, expected more memory"

static void check_device(struct cfg_scope *scope)
{
    const struct cfg_cluster *cluster = scope->object;
    if (cfg_scope_usable(scope, CFG_BIT(DEVICE_PER_PEER)) && cluster->transport_per_peer % CFG_PEER_UNIT != 0)
        cfg_scope_report(scope, "transport_per_peer", "found %" PRIu64 " bytes, expected a multiple of 1 KiB",
                         cluster->transport_per_peer);
    if (cfg_scope_usable(scope, CFG_BIT(DEVICE_MEMORY) | CFG_BIT(DEVICE_RESERVE) | CFG_BIT(DEVICE_TRANSPORT)) &&
        !leaves_something(cluster, cluster->device_memory))
        cfg_scope_report(scope, "memory", LEAVES_NOTHING, cluster->device_memory);
}

static const struct cfg_field device_fields[] = {
    [DEVICE_MEMORY] = MEMORY_FIELD(struct cfg_cluster, true),
    [DEVICE_RESERVE] = {.key = "reserve",
                        .type = CFG_SIZE,
                        CFG_MEMBER(struct cfg_cluster, device_reserve),
                        .max = MOST_BYTES,
                        .fallback = "0 B",
                        .help = "Part of the memory that a plan leaves alone"},
    [DEVICE_TRANSPORT] = {.key = "transport_buffers",
                          .type = CFG_SIZE,
                          CFG_MEMBER(struct cfg_cluster, transport_buffers),
                          .max = MOST_BYTES,
                          .fallback = "0 B",
                          .help = "Part of the memory that the transport takes for itself"},
    [DEVICE_PER_PEER] = {.key = "transport_per_peer",
                         .type = CFG_SIZE,
                         CFG_MEMBER(struct cfg_cluster, transport_per_peer),
                         .max = INT64_C(1) << 40,
                         .fallback = "0 B",
                         .help = "What the transport takes beside that for each device that a device exchanges "
                                 "messages with: a multiple of 1 KiB"},
};

static const struct cfg_table device_table = {
    .help = "One device",
    .fields = device_fields,
    .field_count = sizeof(device_fields) / sizeof(device_fields[0]),
    .check = check_device,
};

/* ---- links and costs ---------------------------------------------------------------------- */

static const struct cfg_field link_fields[] = {LINK_FIELDS(struct cfg_cluster, true)};

static const struct cfg_table link_table = {
    .help = "Rates of the links",
    .fields = link_fields,
    .field_count = sizeof(link_fields) / sizeof(link_fields[0]),
};

static const struct cfg_field cost_fields[] = {
    {.key = "round",
     .type = CFG_DURATION,
     CFG_MEMBER(struct cfg_cluster, round_seconds),
     .fallback = "50 us",
     .help = "Fixed cost of one round"},
    {.key = "message",
     .type = CFG_DURATION,
     CFG_MEMBER(struct cfg_cluster, message_seconds),
     .fallback = "5 us",
     .help = "Fixed cost of one message on a device"},
};

static const struct cfg_table cost_table = {
    .help = "Fixed costs",
    .fields = cost_fields,
    .field_count = sizeof(cost_fields) / sizeof(cost_fields[0]),
};

/* ---- groups of nodes ------------------------------------------------------------------------ */

static const struct cfg_field group_device_fields[] = {MEMORY_FIELD(struct cfg_group, false)};

static const struct cfg_table group_device_table = {
    .help = "One device of these nodes",
    .fields = group_device_fields,
    .field_count = sizeof(group_device_fields) / sizeof(group_device_fields[0]),
};

static const struct cfg_field group_link_fields[] = {LINK_FIELDS(struct cfg_group, false)};

static const struct cfg_table group_link_table = {
    .help = "Rates of their links",
    .fields = group_link_fields,
    .field_count = sizeof(group_link_fields) / sizeof(group_link_fields[0]),
};

static bool count_node(void *context, const struct cfg_site *site, uint64_t node)
{
    uint32_t *count = context;
    (void)site;
    (void)node;
    (*count)++;
    return true;
}

static bool keep_node(void *context, const struct cfg_site *site, uint64_t node)
{
    struct cfg_group *group = context;
    (void)site;
    group->nodes[group->node_count++] = (uint32_t)node;
    return true;
}

static bool read_nodes(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_group *group = object;
    uint32_t count = 0;
    if (!cfg_site_numbers(site, field, count_node, &count))
        return false;
    group->nodes = cfg_site_alloc(site, count * sizeof(*group->nodes));
    return group->nodes != NULL && cfg_site_numbers(site, field, keep_node, group);
}

static void release_group(void *object)
{
    free(((struct cfg_group *)object)->nodes);
}

static const struct cfg_field group_fields[] = {
    {.key = "nodes",
     .type = CFG_CUSTOM,
     .required = true,
     CFG_POS(struct cfg_group, nodes_pos),
     .max = MOST_NODES - 1,
     .read = read_nodes,
     .expected = "a list of nodes such as 0-3",
     .json = CFG_NUMBERS_JSON,
     .help = "Nodes of the group, counted from 0"},
    NODE_FIELD(struct cfg_group, false),
    {.key = "device", .type = CFG_TABLE, .table = &group_device_table, .help = "One device of these nodes"},
    {.key = "links", .type = CFG_TABLE, .table = &group_link_table, .help = "Rates of their links"},
    COPY_FIELDS(struct cfg_group, false),
};

static const struct cfg_table group_table = {
    .help = "Nodes that are unlike the others; what is not said is as in the rest of the cluster",
    .fields = group_fields,
    .field_count = sizeof(group_fields) / sizeof(group_fields[0]),
    .size = sizeof(struct cfg_group),
    .pos_member = 1 + offsetof(struct cfg_group, pos),
    .release = release_group,
};

/* ---- the document ---------------------------------------------------------------------------- */

enum { CLUSTER_KIND, CLUSTER_NAME, CLUSTER_PER_NODE, CLUSTER_NODES, CLUSTER_DEVICE, CLUSTER_LINKS, CLUSTER_GROUPS };

static void report_group(const struct cfg_scope *scope, uint32_t index, const char *key, struct cfg_pos pos,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

static void report_group(const struct cfg_scope *scope, uint32_t index, const char *key, struct cfg_pos pos,
                         const char *format, ...)
{
    const struct cfg_path list = {.up = scope->path, .key = "groups"};
    const struct cfg_path entry = {.up = &list, .index = index};
    const struct cfg_path path = {.up = &entry, .key = key};
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cfg_report(scope->loader->diag, pos, &path, "%s", text);
}

/* Enter a group's nodes in the table of all. */
static void enter_nodes(const struct cfg_scope *scope, struct cfg_cluster *cluster, uint32_t index)
{
    const struct cfg_group *group = &cluster->groups[index];
    for (uint32_t n = 0; n < group->node_count; n++) {
        uint32_t node = group->nodes[n];
        if (cluster->group_of[node] != 0) {
            report_group(scope, index, "nodes", group->nodes_pos,
                         "found node %" PRIu32 " a second time, expected each node once", node);
            return;
        }
        if (cluster->nodes > 0 && node >= cluster->nodes) {
            report_group(scope, index, "nodes", group->nodes_pos,
                         "found node %" PRIu32 ", expected less than %" PRId64 ", the nodes of the cluster", node,
                         cluster->nodes);
            return;
        }
        cluster->group_of[node] = index + 1;
    }
}

static uint32_t count_grouped(const struct cfg_cluster *cluster)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        for (uint32_t n = 0; n < cluster->groups[g].node_count; n++)
            count = cluster->groups[g].nodes[n] >= count ? cluster->groups[g].nodes[n] + 1 : count;
    }
    return count;
}

static void check_cluster(struct cfg_scope *scope)
{
    struct cfg_cluster *cluster = scope->object;
    const struct cfg_site site = {scope->loader, scope->node, scope->path};
    if (cluster->group_count == 0 ||
        !cfg_scope_usable(scope, CFG_BIT(CLUSTER_NODES) | CFG_BIT(CLUSTER_DEVICE) | CFG_BIT(CLUSTER_GROUPS)))
        return;
    cluster->grouped_nodes = count_grouped(cluster);
    cluster->group_of = cfg_site_alloc(&site, cluster->grouped_nodes * sizeof(*cluster->group_of));
    for (uint32_t g = 0; cluster->group_of != NULL && g < cluster->group_count; g++) {
        const struct cfg_group *group = &cluster->groups[g];
        enter_nodes(scope, cluster, g);
        if (group->device_memory > 0 && !leaves_something(cluster, group->device_memory))
            report_group(scope, g, "device.memory", group->pos, LEAVES_NOTHING, group->device_memory);
    }
}

static void release_cluster(void *object)
{
    free(((struct cfg_cluster *)object)->group_of);
}

static const struct cfg_choice kinds[] = {{"cluster", 0}, {NULL, 0}};

static const struct cfg_field cluster_fields[] = {
    [CLUSTER_KIND] = CFG_KIND_FIELD(kinds),
    [CLUSTER_NAME] = {.key = "name",
                      .type = CFG_TEXT,
                      .required = true,
                      CFG_MEMBER(struct cfg_cluster, name),
                      .accept = cfg_accept_name,
                      .help = "Name of the cluster"},
    [CLUSTER_PER_NODE] = NODE_FIELD(struct cfg_cluster, true),
    [CLUSTER_NODES] = {.key = "nodes",
                       .type = CFG_COUNT,
                       CFG_MEMBER(struct cfg_cluster, nodes),
                       .min = 0,
                       .max = MOST_NODES,
                       .absent = 0,
                       .help = "Nodes; 0 or absent: as many as needed"},
    [CLUSTER_DEVICE] =
        {.key = "device", .type = CFG_TABLE, .required = true, .table = &device_table, .help = "One device"},
    [CLUSTER_LINKS] =
        {.key = "links", .type = CFG_TABLE, .required = true, .table = &link_table, .help = "Rates of the links"},
    [CLUSTER_GROUPS] = {.key = "groups",
                        .type = CFG_LIST,
                        CFG_MEMBER(struct cfg_cluster, groups),
                        CFG_NUMBER(struct cfg_cluster, group_count),
                        .table = &group_table,
                        .min = 1,
                        .max = MOST_GROUPS,
                        .help = "Nodes that are unlike the others"},
    COPY_FIELDS(struct cfg_cluster, true),
    {.key = "costs", .type = CFG_TABLE, .table = &cost_table, .help = "Fixed costs"},
};

static const struct cfg_table cluster_table = {
    .help = "The machines that a plan runs on",
    .fields = cluster_fields,
    .field_count = sizeof(cluster_fields) / sizeof(cluster_fields[0]),
    .size = sizeof(struct cfg_cluster),
    .check = check_cluster,
    .release = release_cluster,
};

const struct cfg_document cfg_cluster_document = {.kind = "cluster", .title = "Shunt cluster", .table = &cluster_table};
