/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ranges.h"

#ifdef SHUNT_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static const char *const names[RANGE_KINDS] = {"round", "wire", "pack", "wait", "unpack"};

static nvtxDomainHandle_t domain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_domain(void)
{
    domain = nvtxDomainCreateA("shunt");
}

static nvtxEventAttributes_t describe(enum range_kind kind, uint32_t device, uint32_t round)
{
    pthread_once(&once, make_domain);
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .category = device,
                                   .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                   .payload.ullValue = round,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = names[kind]};
}

void range_push(enum range_kind kind, uint32_t device, uint32_t round)
{
    nvtxEventAttributes_t attributes = describe(kind, device, round);
    nvtxDomainRangePushEx(domain, &attributes);
}

void range_pop(void)
{
    nvtxDomainRangePop(domain);
}

uint64_t range_start(enum range_kind kind, uint32_t device, uint32_t round)
{
    nvtxEventAttributes_t attributes = describe(kind, device, round);
    return nvtxDomainRangeStartEx(domain, &attributes);
}

void range_end(uint64_t range)
{
    if (range != 0)
        nvtxDomainRangeEnd(domain, range);
}

#else

void range_push(enum range_kind kind, uint32_t device, uint32_t round)
{
    (void)kind, (void)device, (void)round;
}

void range_pop(void)
{
}

uint64_t range_start(enum range_kind kind, uint32_t device, uint32_t round)
{
    (void)kind, (void)device, (void)round;
    return 0;
}

void range_end(uint64_t range)
{
    (void)range;
}

#endif
