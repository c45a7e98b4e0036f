/* SPDX-License-Identifier: Apache-2.0 */
/** Views: their sizes, and the checks that make those sizes safe to compute. */
#include <inttypes.h>

#include "plan_internal.h"

uint64_t shunt_plan_view_extent(const struct shunt_plan_view *view)
{
    uint64_t extent = view->elem_bytes;
    for (uint32_t d = 0; d < view->ndim; d++)
        extent += (uint64_t)(view->shape[d] - 1) * (uint64_t)view->stride[d];
    return extent;
}

uint64_t shunt_plan_view_elements(const struct shunt_plan_view *view)
{
    uint64_t elements = 1;
    for (uint32_t d = 0; d < view->ndim; d++)
        elements *= (uint64_t)view->shape[d];
    return elements;
}

bool schema_view_is_dense(const struct shunt_plan_view *view)
{
    int64_t stride = view->elem_bytes;
    for (uint32_t d = view->ndim; d-- > 0;) {
        if (view->shape[d] > 1 && view->stride[d] != stride)
            return false;
        stride *= view->shape[d];
    }
    return true;
}

/* Dimension d of a view: its range, and the sizes so far, which may not pass the limit. */
static bool check_view_dim(const struct plan_site *site, const struct shunt_plan_view *view, uint32_t d,
                           uint64_t *bytes, uint64_t *extent)
{
    int64_t shape = view->shape[d], stride = view->stride[d];
    if (shape < 1 || stride < 0)
        return schema_refuse(site, "dimension %" PRIu32 " has shape %" PRId64 " and stride %" PRId64, d, shape, stride);
    if (stride % view->elem_bytes != 0)
        return schema_refuse(site, "dimension %" PRIu32 ": stride %" PRId64 " is no multiple of elem_bytes", d, stride);
    uint64_t span;
    if (__builtin_mul_overflow(*bytes, (uint64_t)shape, bytes) || *bytes > SHUNT_PLAN_MAX_BUFFER_BYTES ||
        __builtin_mul_overflow((uint64_t)shape - 1, (uint64_t)stride, &span) ||
        __builtin_add_overflow(*extent, span, extent) || *extent > SHUNT_PLAN_MAX_BUFFER_BYTES)
        return schema_refuse(site, "dimension %" PRIu32 ": size is above %" PRIu64 " bytes", d,
                             SHUNT_PLAN_MAX_BUFFER_BYTES);
    return true;
}

bool schema_check_view(const struct plan_site *site, const struct shunt_plan_view *view)
{
    if (!schema_in_range(site, "ndim", view->ndim, 1, SHUNT_MAX_DIMS))
        return false;
    uint32_t elem = view->elem_bytes;
    if (elem != 1 && elem != 2 && elem != 4 && elem != 8)
        return schema_refuse(site, "elem_bytes is %" PRIu32 ", allowed 1, 2, 4, 8", elem);
    uint64_t bytes = elem, extent = elem;
    for (uint32_t d = 0; d < view->ndim; d++) {
        if (!check_view_dim(site, view, d, &bytes, &extent))
            return false;
    }
    for (uint32_t d = view->ndim; d < SHUNT_MAX_DIMS; d++) {
        if (view->shape[d] != 1 || view->stride[d] != 0)
            return schema_refuse(
                site, "unused dimension %" PRIu32 " has shape %" PRId64 " and stride %" PRId64 ", expected 1 and 0", d,
                view->shape[d], view->stride[d]);
    }
    return true;
}
