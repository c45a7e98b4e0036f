/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/nccl_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"

static struct nccl_api api;
static struct shunt_err why_not;
static enum shunt_status loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* A function pointer out of dlsym() is not ISO C; its bytes are. */
static bool look_up(const char *name, size_t place)
{
    void *function = dlsym(api.library, name);
    memcpy((char *)&api + place, &function, sizeof(function));
    return function != NULL;
}

static const struct {
    const char *name;
    size_t place;
} functions[] = {
#define X(name) {#name, offsetof(struct nccl_api, name)},
    NCCL_FUNCTIONS(X)
#undef X
};

static void load(void)
{
    api.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (api.library == NULL) {
        loaded = shunt_fail(&why_not, SHUNT_ERR_IO, "no NCCL library: %s cannot be loaded (%s)", LIBRARY, dlerror());
        return;
    }
    look_up("ncclCommRevoke", offsetof(struct nccl_api, ncclCommRevoke));
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && loaded == SHUNT_OK; i++) {
        if (!look_up(functions[i].name, functions[i].place))
            loaded = shunt_fail(&why_not, SHUNT_ERR_IO, "the NCCL library has no %s: version 2.14 or later is needed",
                                functions[i].name);
    }
    if (loaded == SHUNT_OK && api.ncclGetVersion(&api.version) != ncclSuccess)
        loaded = shunt_fail(&why_not, SHUNT_ERR_IO, "the NCCL library does not tell its version");
}

enum shunt_status nccl_api_get(const struct nccl_api **api_out, struct shunt_err *err)
{
    pthread_once(&once, load);
    if (loaded != SHUNT_OK)
        return shunt_fail(err, loaded, "%s", why_not.text);
    *api_out = &api;
    return SHUNT_OK;
}
