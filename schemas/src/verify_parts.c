/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which parts are in memory. The walk goes device by device, and a device meets few others, so a
 * bounded number of bytes is kept, those used last, and what was dropped is read again when needed.
 */
#include <stdlib.h>

#include "alloc.h"
#include "plan_internal.h"
#include "verify_internal.h"

uint64_t schema_verify_keep_bytes = UINT64_C(256) << 20;

/* ---- the list from newest to oldest -------------------------------------------------- */

static void unlink_part(struct verifier *v, uint32_t device)
{
    struct vpart *vp = &v->parts[device];
    *(vp->newer == VNONE ? &v->newest : &v->parts[vp->newer].older) = vp->older;
    *(vp->older == VNONE ? &v->oldest : &v->parts[vp->older].newer) = vp->newer;
}

static void link_newest(struct verifier *v, uint32_t device)
{
    struct vpart *vp = &v->parts[device];
    vp->newer = VNONE;
    vp->older = v->newest;
    *(v->newest == VNONE ? &v->oldest : &v->parts[v->newest].newer) = device;
    v->newest = device;
}

static void touch(struct verifier *v, uint32_t device)
{
    unlink_part(v, device);
    link_newest(v, device);
}

static void drop(struct verifier *v, uint32_t device)
{
    struct vpart *vp = &v->parts[device];
    unlink_part(v, device);
    vindex_finish(vp);
    schema_free_part(v->plan, vp->bytes);
    v->held_bytes -= shunt_plan_get_device(v->plan, device)->part_bytes;
    vp->held = false;
}

/* ---- reading ------------------------------------------------------------------------ */

static enum shunt_status read_part(struct verifier *v, uint32_t device, struct shunt_err *err)
{
    struct vpart *vp = &v->parts[device];
    enum shunt_status st = schema_read_part(v->plan, device, &vp->part, &vp->bytes, err);
    if (st != SHUNT_OK)
        return st;
    if (!vindex_part(vp, v->header->round_count)) {
        schema_free_part(v->plan, vp->bytes);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "verify: out of memory");
    }
    vp->held = true;
    v->held_bytes += shunt_plan_get_device(v->plan, device)->part_bytes;
    link_newest(v, device);
    return SHUNT_OK;
}

bool vparts_hold(struct verifier *v, uint32_t device, uint32_t also)
{
    struct vpart *vp = &v->parts[device];
    if (v->status != SHUNT_OK)
        return false;
    if (also != VNONE)
        touch(v, also);
    if (vp->held)
        touch(v, device);
    else
        v->status = read_part(v, device, &v->err);
    uint64_t keep = v->digest.active ? 0 : schema_verify_keep_bytes;
    while (v->held_bytes > keep && v->oldest != device && v->oldest != also && v->oldest != VNONE)
        drop(v, v->oldest);
    return v->status == SHUNT_OK;
}

bool vparts_open(struct verifier *v)
{
    v->newest = v->oldest = VNONE;
    v->parts = schema_alloc(v->header->device_count, sizeof(*v->parts));
    v->all_readable = true;
    return v->parts != NULL;
}

enum shunt_status vparts_read(struct verifier *v, uint32_t begin, uint32_t end,
                              enum shunt_status (*visit)(struct verifier *v, uint32_t device))
{
    enum shunt_status st = SHUNT_OK;
    for (uint32_t d = begin; d < end && st == SHUNT_OK; d++) {
        v->parts[d].readable = vparts_hold(v, d, VNONE);
        if (v->parts[d].readable) {
            st = visit(v, d);
        } else if (v->status == SHUNT_ERR_PLAN) {
            vproblem(v, SHUNT_RULE_PART, VNONE, VNONE, "%.380s", v->err.text);
            v->all_readable = false;
            v->status = SHUNT_OK;
        } else {
            st = v->status;
        }
    }
    return st;
}

void vparts_drop_all(struct verifier *v)
{
    while (v->parts != NULL && v->oldest != VNONE)
        drop(v, v->oldest);
}

void vparts_finish(struct verifier *v)
{
    vparts_drop_all(v);
    free(v->parts);
}
