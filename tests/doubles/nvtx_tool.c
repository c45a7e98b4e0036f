/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler that NVTX loads (NVTX_INJECTION64_PATH): writes the ranges of domain "shunt" to the file named by
 * SHUNT_NVTX_LOG, a line each: "push NAME DEVICE ROUND", "pop", "start ID NAME DEVICE ROUND", "end ID".
 */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvtxRangeId_t last;
static int ours; /* its address is the domain */

static nvtxDomainHandle_t create(const char *name)
{
    return strcmp(name, "shunt") == 0 ? (nvtxDomainHandle_t)&ours : NULL;
}

static void write_line(const char *what, nvtxRangeId_t id, const nvtxEventAttributes_t *attributes)
{
    pthread_mutex_lock(&lock);
    fprintf(file, "%s", what);
    if (id != 0)
        fprintf(file, " %llu", (unsigned long long)id);
    if (attributes != NULL)
        fprintf(file, " %s %u %llu", attributes->message.ascii, attributes->category,
                (unsigned long long)attributes->payload.ullValue);
    fprintf(file, "\n");
    fflush(file);
    pthread_mutex_unlock(&lock);
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (domain == (nvtxDomainHandle_t)&ours)
        write_line("push", 0, attributes);
    return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
    if (domain == (nvtxDomainHandle_t)&ours)
        write_line("pop", 0, NULL);
    return 0;
}

static nvtxRangeId_t start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (domain != (nvtxDomainHandle_t)&ours)
        return 0;
    nvtxRangeId_t id = __atomic_add_fetch(&last, 1, __ATOMIC_SEQ_CST);
    write_line("start", id, attributes);
    return id;
}

static void end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    if (domain == (nvtxDomainHandle_t)&ours)
        write_line("end", id, NULL);
}

/* Function pointers of many types go into one table of one type. */
#define TAKE(table, size, id, function)                                                                                \
    do {                                                                                                               \
        __typeof__(&function) pointer_ = &function;                                                                    \
        if ((id) < (size))                                                                                             \
            memcpy((table)[id], &pointer_, sizeof(pointer_));                                                          \
    } while (0)

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    const char *path = getenv("SHUNT_NVTX_LOG");
    NvtxFunctionTable table;
    unsigned size = 0;
    file = path == NULL ? NULL : fopen(path, "w");
    if (file == NULL || callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    TAKE(table, size, NVTX_CBID_CORE2_DomainCreateA, create);
    TAKE(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
    TAKE(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
    TAKE(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, start);
    TAKE(table, size, NVTX_CBID_CORE2_DomainRangeEnd, end);
    return 1;
}
