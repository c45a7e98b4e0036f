/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel as the GPU sees it. Its body is device/kernel.h; argument and table layouts are those of kernel.h too. */
#include "device/kernel.h"

extern "C" __global__ void __launch_bounds__(KERNEL_LANES) shunt_move(struct kernel_args args)
{
    for (uint32_t t = blockIdx.x; t < args.tile_count; t += gridDim.x) {
        struct kernel_tile tile = args.tiles[args.tile_begin + t];
        const struct kernel_box *box = &args.boxes[tile.box];
        kernel_move(box, tile.index, (char *)args.bases[box->dst_base], (const char *)args.bases[box->src_base],
                    threadIdx.x, blockDim.x);
    }
}
