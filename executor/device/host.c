/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory. Large blocks are mappings of their own, so that a free gives the pages back at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cast.h"
#include "device/copy.h"
#include "device/device.h"

#define HOST_ALIGN     64u
#define HOST_MAP_MIN   (UINT64_C(64) << 10)
#define HOST_MAX_BYTES (SIZE_MAX / 2)

static void *host_alloc(uint64_t bytes)
{
    void *ptr;
    if (bytes > HOST_MAX_BYTES)
        return NULL;
    if (bytes >= HOST_MAP_MIN) {
        ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ptr == MAP_FAILED)
            return NULL;
#ifdef MADV_POPULATE_WRITE
        /* all pages at once cost half of a fault each; where the kernel cannot, they come one by one */
        (void)madvise(ptr, bytes, MADV_POPULATE_WRITE);
#endif
        return ptr;
    }
    if (posix_memalign(&ptr, HOST_ALIGN, bytes == 0 ? 1 : bytes) != 0)
        return NULL;
    memset(ptr, 0, bytes);
    return ptr;
}

static void host_free(void *ptr, uint64_t bytes)
{
    if (ptr == NULL)
        return;
    if (bytes >= HOST_MAP_MIN)
        munmap(ptr, bytes);
    else
        free(ptr);
}

static void host_copy(const struct device_box *dst, const struct device_box *src)
{
    copy_box(dst->data, dst->view, src->data, src->view);
}

static void host_cast(const struct device_box *dst, const struct device_box *src, unsigned cast)
{
    cast_box(dst->data, dst->view, src->data, src->view, cast);
}

static void host_fill_zero(const struct device_box *dst)
{
    fill_box(dst->data, dst->view, 0);
}

const struct device_ops device_host = {
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
    .copy = host_copy,
    .cast = host_cast,
    .fill_zero = host_fill_zero,
};
