/* SPDX-License-Identifier: Apache-2.0 */
/* What the devices of a node are like: what its group says, else what the cluster says. */
#include <math.h>

#include "config.h"

/* The first of three that is said. */
static double first_of(double a, double b, double fallback)
{
    return a > 0 ? a : b > 0 ? b : fallback;
}

uint32_t cfg_cluster_group(const struct cfg_cluster *cluster, uint64_t node)
{
    return node < cluster->grouped_nodes ? cluster->group_of[node] : 0;
}

struct cfg_machine cfg_cluster_machine(const struct cfg_cluster *cluster, uint32_t group)
{
    static const struct cfg_group nothing;
    const struct cfg_group *own = group == 0 ? &nothing : &cluster->groups[group - 1];
    struct cfg_machine machine = {
        .devices_per_node = own->devices_per_node > 0 ? own->devices_per_node : cluster->devices_per_node,
        .memory = own->device_memory > 0 ? own->device_memory : cluster->device_memory,
        .intra_node = first_of(own->intra_node_bytes_per_second, cluster->intra_node_bytes_per_second, INFINITY),
        .inter_node = first_of(own->inter_node_bytes_per_second, cluster->inter_node_bytes_per_second, INFINITY),
        .host_to_device =
            first_of(own->host_to_device_bytes_per_second, cluster->host_to_device_bytes_per_second, INFINITY),
        .device_to_host =
            first_of(own->device_to_host_bytes_per_second, cluster->device_to_host_bytes_per_second, INFINITY),
        .copy = first_of(own->copy_bytes_per_second, cluster->copy_bytes_per_second, INFINITY),
    };
    double together = machine.inter_node * (double)machine.devices_per_node;
    double total = first_of(own->node_inter_node_bytes_per_second, cluster->node_inter_node_bytes_per_second, together);
    double channel = first_of(own->channel_bytes_per_second, cluster->channel_bytes_per_second, INFINITY);
    machine.node_inter_node = total < together ? total : together;
    machine.message = channel * (double)(own->channels > 0 ? own->channels : cluster->channels);
    machine.pack = first_of(own->pack_bytes_per_second, cluster->pack_bytes_per_second, machine.copy);
    machine.unpack = first_of(own->unpack_bytes_per_second, cluster->unpack_bytes_per_second, machine.copy);
    return machine;
}
