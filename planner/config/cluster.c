/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "names.h"
#include "tables.h"

enum { DEVICE_MEMORY, DEVICE_RESERVE, DEVICE_TRANSPORT };

/* reserve + transport buffers < memory */
static void check_device(struct cfg_scope *scope)
{
    const struct cfg_cluster *cluster = scope->object;
    if (!cfg_scope_usable(scope, CFG_BIT(DEVICE_MEMORY) | CFG_BIT(DEVICE_RESERVE) | CFG_BIT(DEVICE_TRANSPORT)))
        return;
    uint64_t taken;
    if (!__builtin_add_overflow(cluster->device_reserve, cluster->transport_buffers, &taken) &&
        taken < cluster->device_memory)
        return;
    cfg_scope_report(scope, "memory",
                     "found %" PRIu64 " bytes, of which reserve and transport_buffers leave nothing, "
                     "expected more memory",
                     cluster->device_memory);
}

#define MOST_BYTES (INT64_C(1) << 50)

static const struct cfg_field device_fields[] = {
    [DEVICE_MEMORY] = {.key = "memory",
                       .type = CFG_SIZE,
                       .required = true,
                       CFG_MEMBER(struct cfg_cluster, device_memory),
                       .min = 1,
                       .max = MOST_BYTES,
                       .help = "Memory of one device"},
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
};

static const struct cfg_table device_table = {
    .help = "One device",
    .fields = device_fields,
    .field_count = sizeof(device_fields) / sizeof(device_fields[0]),
    .check = check_device,
};

static const struct cfg_field link_fields[] = {
    {.key = "intra_node",
     .type = CFG_RATE,
     .required = true,
     CFG_MEMBER(struct cfg_cluster, intra_node_bytes_per_second),
     .help = "Between devices of one node, per device and direction"},
    {.key = "inter_node",
     .type = CFG_RATE,
     .required = true,
     CFG_MEMBER(struct cfg_cluster, inter_node_bytes_per_second),
     .help = "Between devices of different nodes, per device and direction"},
};

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

static const struct cfg_choice kinds[] = {{"cluster", 0}, {NULL, 0}};

static const struct cfg_field cluster_fields[] = {
    CFG_KIND_FIELD(kinds),
    {.key = "name",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_cluster, name),
     .accept = cfg_accept_name,
     .help = "Name of the cluster"},
    {.key = "devices_per_node",
     .type = CFG_COUNT,
     .required = true,
     CFG_MEMBER(struct cfg_cluster, devices_per_node),
     .min = 1,
     .max = 1 << 20,
     .help = "Devices of one node; device d is on node d / devices_per_node"},
    {.key = "nodes",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_cluster, nodes),
     .min = 0,
     .max = 1 << 20,
     .absent = 0,
     .help = "Nodes; 0 or absent: as many as needed"},
    {.key = "device", .type = CFG_TABLE, .required = true, .table = &device_table, .help = "One device"},
    {.key = "links", .type = CFG_TABLE, .required = true, .table = &link_table, .help = "Rates of the links"},
    {.key = "copy",
     .type = CFG_RATE,
     .required = true,
     CFG_MEMBER(struct cfg_cluster, copy_bytes_per_second),
     .help = "Local copies, packs and unpacks: bytes written per second"},
    {.key = "costs", .type = CFG_TABLE, .table = &cost_table, .help = "Fixed costs"},
};

static const struct cfg_table cluster_table = {
    .help = "The machines that a plan runs on",
    .fields = cluster_fields,
    .field_count = sizeof(cluster_fields) / sizeof(cluster_fields[0]),
    .size = sizeof(struct cfg_cluster),
};

const struct cfg_document cfg_cluster_document = {.kind = "cluster", .title = "Shunt cluster", .table = &cluster_table};
